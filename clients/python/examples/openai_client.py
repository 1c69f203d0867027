"""A model behind a paid, OpenAI-compatible address: openai's own client with a paying HTTP client.

openai repeats by itself what a busy model did not answer. That is safe: a repeat is the same payment.
"""

import os

import openai

import purserpay
import purserpay.httpx2

options = purserpay.Options(os.environ["PURSER_KEY"], os.environ["PURSER_URL"], max_amount=50_000)
client = openai.OpenAI(
    base_url=os.environ["MODEL_URL"],
    api_key="paid-per-request",
    http_client=purserpay.httpx2.Client(options),
)
answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "How is the weather?"}])
print(answer.choices[0].message.content)
client.close()
