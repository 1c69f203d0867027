"""anthropic: a model that is paid by the request."""

import os

import anthropic

import purserpay
import purserpay.httpx2

with purserpay.httpx2.Client(purserpay.from_env(return_402=True)) as paying:
    client = anthropic.Anthropic(base_url=os.environ["MODEL_URL"], api_key="none", http_client=paying)
    question: anthropic.types.MessageParam = {"role": "user", "content": "How is the weather?"}
    print(client.messages.create(model="any", max_tokens=100, messages=[question]).content[0])
