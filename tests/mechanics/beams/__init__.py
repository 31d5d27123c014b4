"""Tests of beams."""
