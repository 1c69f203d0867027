"""Amounts: whole numbers of the smallest unit inside, USDC for people. BEHAVIOUR.md §2."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

from ._wire import canonical_amount

__all__ = ["Amount", "smallest", "usdc", "usdc_text"]

Amount: TypeAlias = int | str | Decimal

_DECIMALS = 6
_USDC = re.compile(r"([0-9]{1,60})(?:\.([0-9]{1,6}))? USDC", re.ASCII)


def smallest(name: str, given: Amount) -> int:
    """Read an amount as programs give it.

    Whole numbers, and texts of digits alone, count the smallest unit. ``"0.05 USDC"`` and ``Decimal("0.05")`` are USDC.
    Floats are refused, because they cannot hold amounts, and so is ``"0.05"``, because it does not name a unit.
    """
    if isinstance(given, bool) or not isinstance(given, (int, str, Decimal)):
        raise TypeError(f"{name} is a whole number, a decimal string or a Decimal, such as '0.05 USDC'")
    if isinstance(given, Decimal):
        given = f"{given:f} USDC" if given.is_finite() else ""
    amount = canonical_amount(str(given))
    match = _USDC.fullmatch(str(given))
    if amount is None and match is not None:
        amount = int(match[1] + (match[2] or "").ljust(_DECIMALS, "0"))
    if amount is None:
        raise ValueError(f"{name} is a whole number in the asset's smallest unit, or USDC such as '0.05 USDC'")
    return amount


def usdc(amount: int | str) -> Decimal:
    """Turn an amount in the smallest unit into USDC: ``usdc("10000")`` is ``Decimal("0.01")``."""
    digits = f"{abs(int(amount)):0{_DECIMALS + 1}d}"
    fraction = digits[-_DECIMALS:].rstrip("0").ljust(2, "0")
    sign = "-" if int(amount) < 0 else ""
    # Only from text is a Decimal exact: arithmetic rounds to the digits of the program's decimal context.
    return Decimal(f"{sign}{digits[:-_DECIMALS]}.{fraction}")


def usdc_text(amount: int | str) -> str:
    """Write an amount in the smallest unit for people: ``"0.01 USDC"``."""
    return f"{usdc(amount):f} USDC"
