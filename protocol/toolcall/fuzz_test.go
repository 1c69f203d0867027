package toolcall_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/protocol/toolcall"
	"github.com/purserpay/purser/x402"
)

// Whatever comes, a call and the messages of its server are read without a panic. A paid call asks for what it asked for.
func FuzzCall(f *testing.F) {
	for _, folder := range []string{"challenges", "paid"} {
		for _, x := range exchanges(f, folder) {
			for _, message := range x.messages() {
				f.Add([]byte(x.Body), []byte(message), int(dialects[x.Dialect]))
			}
		}
	}
	call := []byte(`{"id":"","method":"prompts/get","params":{"name":"..","_meta":{"x402/payment":null,"\u0061":1,"progressToken":[]}}}`)
	for _, message := range []string{
		``, `{"id":"","result":{"isError":true,"content":[{"text":"{}"}]}}`, `{"id":"","error":{"data":"{\"x402Version\":1,\"accepts\":[]}"}}`,
		`{"id":1,"result":{"x402Version":2,"accepts":[]},"method":"x"}`, `{"id":"","result":{"structuredContent":{"x402Version":2,"accepts":[]}}}`,
	} {
		f.Add(call, []byte(message), 0)
	}
	f.Fuzz(func(t *testing.T, body, message []byte, dialect int) {
		c, err := toolcall.Read(body)
		if err != nil {
			return
		}
		if site := c.Site(&url.URL{Scheme: "https", Host: "shop.test"}); !strings.HasPrefix(site, "mcp://shop.test/"+c.Kind()+"/") {
			t.Errorf("booked as %s", site)
		}
		kind, asked := c.Sort(message), c.Asked()
		if asked.Sort(message) != kind {
			t.Error("the call is answered otherwise without its body")
		}
		said := c.Hear(message)
		if said.Terms != nil && !said.Failed {
			t.Errorf("terms in a result that is no error: %s", message)
		}
		if said.Terms != nil && !json.Valid(said.Terms) {
			t.Errorf("terms that are no JSON: %q", said.Terms)
		}
		refusal := c.Refusal("2026-07-28", "no", json.RawMessage(`{}`))
		if c.Sort(refusal) != toolcall.Answers || c.Hear(refusal).Terms != nil || string(asked.Refusal("2026-07-28", "no", json.RawMessage(`{}`))) != string(refusal) {
			t.Errorf("refused with %s", refusal)
		}
		if c.Pays() {
			return
		}
		payload := x402.Payload{JSON: json.RawMessage(`{"x402Version":2}`)}
		paid, err := toolcall.Read(c.Paid(toolcall.Dialect(dialect), payload))
		if err != nil || !paid.Pays() || paid.ID() != c.ID() || paid.Site(&url.URL{}) != c.Site(&url.URL{}) {
			t.Fatalf("paid: %v", err)
		}
		if got := unpaid(paid.Content()); got != c.Content() {
			t.Errorf("%s, want %s", got, c.Content())
		}
	})
}

// unpaid takes the payment out of a content.
func unpaid(content string) string {
	for _, member := range []string{`"x402/payment":{"x402Version":2,},`, `"x402/payment":"eyJ4NDAyVmVyc2lvbiI6Mn0=",`, `"x402.payment":"eyJ4NDAyVmVyc2lvbiI6Mn0=",`} {
		if i := strings.LastIndex(content, member); i >= 0 {
			content = content[:i] + content[i+len(member):]
		}
	}
	return content
}
