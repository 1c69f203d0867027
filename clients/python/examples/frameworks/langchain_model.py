"""LangChain: a chat model that is paid by the request."""

import os

from langchain_openai import ChatOpenAI

import purserpay
import purserpay.httpx2

with purserpay.httpx2.Client(purserpay.from_env(return_402=True)) as paying:
    model = ChatOpenAI(model="any", base_url=os.environ["MODEL_URL"], api_key=lambda: "none", http_client=paying)
    print(model.invoke("How is the weather?").content)
