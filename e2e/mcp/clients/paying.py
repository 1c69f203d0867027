"""How the clients for Python pay by purserpay, if PURSER_KEY is set. It sends no payment twice by itself."""

import os


def pays():
    return "PURSER_KEY" in os.environ


def first_generation(headers=None, timeout=None, auth=None):
    """Make a client of httpx as the package mcp wants it."""
    import purserpay.httpx

    options = purserpay.from_env(resends=0)
    return purserpay.httpx.AsyncClient(options, headers=headers, timeout=timeout, auth=auth, follow_redirects=True)


def second_generation():
    """Make a client of httpx2."""
    import purserpay.httpx2

    return purserpay.httpx2.AsyncClient(purserpay.from_env(resends=0, return_402=True), follow_redirects=True)
