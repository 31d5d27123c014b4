"""Tests of contact and friction."""
