from sympy import Symbol

S0 = Symbol('S0')
dynamic_dim_constraint_symbols = [S0]
dynamic_dim_constraint_symbol2example_value = {S0: 6}
dynamic_dim_constraint_relations = []
dynamic_dim_constraint_input_shapes = [([1, S0, 24], 'L_x_')]
