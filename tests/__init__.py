"""Tests of Warren; never part of what is installed."""
