"""A module takes the name of a library."""

PI = 3
