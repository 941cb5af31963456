"""Plain Python twins of the compiled kernels: the clearest form of the rules.

They have the same names, arguments, results and errors, and are 50 to 1000 times slower.
"""
