/** Makes the calls in CALLS, and prints what each got. */
export async function callAll(call) {
  for (const one of JSON.parse(process.env.CALLS)) {
    let got;
    try {
      const { isError, content, structuredContent, _meta } = await call(one);
      got = { isError: Boolean(isError), text: content.map((part) => part.text ?? "").join(""), structured: structuredContent, meta: _meta };
    } catch (error) {
      got = { failure: String(error) };
    }
    console.log(JSON.stringify(got));
  }
}
