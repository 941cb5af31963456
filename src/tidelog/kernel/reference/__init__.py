"""Plain Python twins of the compiled kernels: the clearest form of the rules, the tests' standard.

They have the same names, arguments, results and errors, and are 50 to 1000 times slower. The library never calls them.
"""
