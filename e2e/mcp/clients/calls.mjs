/** Makes the calls in CALLS, and prints what each got. */
export async function callAll(call) {
  for (const one of JSON.parse(process.env.CALLS)) {
    let got;
    try {
      const { isError, content, structuredContent, _meta } = await call(one);
      const text = content.map((part) => part.text ?? "").join("");
      got = { isError: Boolean(isError), text, structured: structuredContent, meta: _meta };
    } catch (error) {
      got = { failure: String(error) };
    }
    console.log(JSON.stringify(got));
  }
}
