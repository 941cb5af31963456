"""Plain Python twins of the compiled kernels: the rules in their clearest form, and what the suite compares with.

Same names, same arguments, same results and errors; 50 to 1000 times slower. The library itself never calls them.
"""
