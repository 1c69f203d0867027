"""The official client of PyPI, as its documentation has it."""

import os

import httpx
from eth_account import Account
from mpp.client import PaymentTransport
from mpp.methods.evm import client as evm
from mpp.methods.tempo import TempoAccount
from mpp.methods.tempo import client as tempo

tempo.EXPIRING_NONCE_VALID_BEFORE_SECS = 25  # as this anvil allows 30 seconds; the client's 60 need the fork T11

KEY = os.environ["KEY"]
USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
PATH_USD = "0x20c0000000000000000000000000000000000000"


def transport(inner=None):
    methods = [
        evm.charge(
            currency=USDC, account=Account.from_key(KEY), chain_id=8453, decimals=6,
            authorization={"name": "USD Coin", "version": "2"},
        ),
    ]
    if url := os.environ.get("TEMPO_RPC_URL"):
        methods.append(tempo.charge(account=TempoAccount.from_key(KEY), chain_id=4217, rpc_url=url, currencies=[PATH_USD]))
    return PaymentTransport(methods, inner or httpx.AsyncHTTPTransport())
