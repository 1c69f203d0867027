"""LiteLLM: a model that is paid by the request."""

import os

import litellm
import openai

import purserpay
import purserpay.httpx2

with purserpay.httpx2.Client(purserpay.from_env(return_402=True)) as paying:
    client = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="none", http_client=paying)
    messages = [{"role": "user", "content": "How is the weather?"}]
    print(litellm.completion(model="openai/any", messages=messages, client=client).choices[0].message.content)
