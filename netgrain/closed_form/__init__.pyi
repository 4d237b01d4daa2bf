from .rules import rule as rule
