"""A tree bucket of Java's ``HashMap``: a red-black tree, and the list that gives the iteration order.

Java keeps both. A new key goes behind its parent in the list, then the root of the tree moves to the list's front. So
the order follows from the shape of the tree, given by the textbook's algorithms (Cormen et al., "Introduction to
Algorithms"). Keys are compared by hash, as signed 32-bit numbers, then by value.
Pure. Source: behaviour of ``java.util.HashMap`` (Java 17).
"""

from __future__ import annotations

from collections.abc import Iterable

LEFT, RIGHT = 0, 1


class _Node:
    __slots__ = ("children", "key", "parent", "rank", "red")

    def __init__(self, key: int, rank: tuple[int, int], parent: _Node | None) -> None:
        self.key = key
        self.rank = rank
        self.parent = parent
        self.children: list[_Node | None] = [None, None]
        self.red = True


class TreeBucket:
    """A non-empty bucket; ``keys`` are in iteration order."""

    def __init__(self, hashed: Iterable[tuple[int, int]]) -> None:
        """Build the bucket from the (signed hash, key) pairs of the previous list, in list order."""
        self._root: _Node | None = None
        self._nodes: dict[int, _Node] = {}
        self.keys: list[int] = []
        for hash_, key in hashed:
            self._insert(hash_, key)
            self.keys.append(key)
        self._root_to_front()

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: int) -> bool:
        return key in self._nodes

    def add(self, hash_: int, key: int) -> None:
        parent = self._insert(hash_, key)
        self.keys.insert(self.keys.index(parent.key) + 1 if parent else 0, key)
        self._root_to_front()

    def remove(self, key: int) -> None:
        """Remove a key like an iterator does: the list only loses the key, the root does not move."""
        node = self._nodes.pop(key)
        self.keys.remove(key)
        if node.children[LEFT] and node.children[RIGHT]:
            self._swap_with_successor(node)
        only = node.children[LEFT] or node.children[RIGHT]
        if only:
            self._replace(node, only)
            if not node.red:
                self._repair_removal(only)
        else:
            if not node.red:
                self._repair_removal(node)
            self._replace(node, None)

    def _root_to_front(self) -> None:
        if self._root and self.keys[0] != self._root.key:
            self.keys.remove(self._root.key)
            self.keys.insert(0, self._root.key)

    def _insert(self, hash_: int, key: int) -> _Node | None:
        """Insert a node; return its parent from before the tree is balanced."""
        parent, below = None, self._root
        rank = (hash_, key)
        while below:
            parent, below = below, below.children[rank > below.rank]
        node = self._nodes[key] = _Node(key, rank, parent)
        if parent:
            parent.children[rank > parent.rank] = node
        else:
            self._root = node
        self._repair_insertion(node)
        return parent

    def _repair_insertion(self, node: _Node) -> None:
        while (parent := node.parent) and parent.red and (grandparent := parent.parent):
            side = _side(parent)
            uncle = grandparent.children[1 - side]
            if uncle and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                node = grandparent
                continue
            if _side(node) != side:
                self._rotate(parent, side)
                parent = node
            parent.red = False
            grandparent.red = True
            self._rotate(grandparent, 1 - side)
            break
        if self._root:
            self._root.red = False

    def _repair_removal(self, node: _Node) -> None:
        """Restore the balance above ``node``, whose side lacks a black node."""
        while (parent := node.parent) and not node.red:
            side = _side(node)
            sibling = parent.children[1 - side]
            if sibling and sibling.red:
                sibling.red = False
                parent.red = True
                self._rotate(parent, side)
                sibling = parent.children[1 - side]
            if not sibling or not (_is_red(sibling.children[LEFT]) or _is_red(sibling.children[RIGHT])):
                if sibling:
                    sibling.red = True
                node = parent
                continue
            if not _is_red(sibling.children[1 - side]):
                _blacken(sibling.children[side])
                sibling.red = True
                self._rotate(sibling, 1 - side)
                sibling = parent.children[1 - side]
            if sibling:
                sibling.red = parent.red
                _blacken(sibling.children[1 - side])
            parent.red = False
            self._rotate(parent, side)
            return
        node.red = False

    def _rotate(self, node: _Node, side: int) -> None:
        """Move ``node`` down to ``side``; its child of the other side takes its place."""
        child = node.children[1 - side]
        if child:
            inner = child.children[side]
            node.children[1 - side] = inner
            if inner:
                inner.parent = node
            self._replace(node, child)
            child.children[side] = node
            node.parent = child

    def _replace(self, node: _Node, other: _Node | None) -> None:
        """Put ``other`` in the place of ``node``."""
        if node.parent:
            node.parent.children[_side(node)] = other
        else:
            self._root = other
        if other:
            other.parent = node.parent

    def _swap_with_successor(self, node: _Node) -> None:
        """Swap places and colours with the next larger key, which has no left child."""
        successor = node.children[RIGHT]
        assert successor
        while lower := successor.children[LEFT]:
            successor = lower
        node.red, successor.red = successor.red, node.red
        deeper = successor.children[RIGHT]
        left, right = node.children
        above = successor.parent
        self._replace(node, successor)
        if above is node:
            above, right = successor, node
        else:
            assert above
            above.children[LEFT] = node
        node.parent = above
        node.children = [None, deeper]
        successor.children = [left, right]
        for child, parent in ((deeper, node), (left, successor), (right, successor)):
            if child:
                child.parent = parent


def _side(node: _Node) -> int:
    return RIGHT if node.parent and node.parent.children[RIGHT] is node else LEFT


def _is_red(node: _Node | None) -> bool:
    return node is not None and node.red


def _blacken(node: _Node | None) -> None:
    if node:
        node.red = False
