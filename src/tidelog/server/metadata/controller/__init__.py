"""The rules of the controller: each maps an image and a request to records and a result.

They are pure, but for random placement. ``administration`` offers them as the calls of administrators.
"""
