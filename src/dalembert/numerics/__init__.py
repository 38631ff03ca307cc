"""Numerical building blocks that all integrators share: linear solves, Newton, projection, step control."""
