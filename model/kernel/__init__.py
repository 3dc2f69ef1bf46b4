"""Kernels as rows: releases, helpers, map types and C ABIs."""
