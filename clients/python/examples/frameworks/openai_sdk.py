"""openai: a model that is paid by the request."""

import os

import openai

import purserpay
import purserpay.httpx2

with purserpay.httpx2.Client(purserpay.from_env(return_402=True)) as paying:
    client = openai.OpenAI(base_url=os.environ["MODEL_URL"], api_key="none", http_client=paying)
    answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "How is the weather?"}])
    print(answer.choices[0].message.content)
