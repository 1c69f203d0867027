package toolcall_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/protocol/toolcall"
	"github.com/purserpay/purser/x402"
)

// exchange is a call of an official client at an official seller, as it went over the wire.
type exchange struct {
	Seller, Client, Dialect, Body, Answer string
	Header, AnswerHeader                  map[string]string
}

func exchanges(t testing.TB, folder string) map[string]exchange {
	t.Helper()
	files, err := filepath.Glob("../../e2e/mcp/testdata/" + folder + "/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := map[string]exchange{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var x exchange
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = x
	}
	return all
}

// messages returns the messages of an answer, which may be a stream.
func (x exchange) messages() (all []string) {
	if !strings.HasPrefix(x.AnswerHeader["content-type"], "text/event-stream") {
		return []string{x.Answer}
	}
	for line := range strings.Lines(x.Answer) {
		if data, is := strings.CutPrefix(line, "data: "); is && strings.TrimSpace(data) != "" {
			all = append(all, strings.TrimSpace(data))
		}
	}
	return all
}

var dialects = map[string]toolcall.Dialect{
	"cloudflare": toolcall.DialectCloudflare, "vercel": toolcall.DialectX402V1, "x402": toolcall.DialectX402,
}

// The terms of all official sellers are found in what they answer to all official clients.
func TestOfficialChallenges(t *testing.T) {
	t.Parallel()
	for name, x := range exchanges(t, "challenges") {
		c, err := toolcall.Read([]byte(x.Body))
		if err != nil || c.Pays() || c.Name != "get_weather" || c.Kind() != "tool" {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		found := false
		for _, message := range x.messages() {
			if c.Sort([]byte(message)) != toolcall.Answers {
				continue
			}
			found = true
			a := c.Hear([]byte(message))
			terms, err := x402.DecodeBody(a.Terms)
			if err != nil || len(terms.Accepts) == 0 || terms.Accepts[0].Amount.String() != "10000" || !a.Failed {
				t.Errorf("%s: %+v, %v", name, a, err)
			}
			if want, known := dialects[x.Dialect]; !known || a.Dialect != want {
				t.Errorf("%s: dialect %d of %s", name, a.Dialect, x.Dialect)
			}
		}
		if !found {
			t.Errorf("%s: no answer in %q", name, x.Answer)
		}
	}
}

// A payment stands where a reference client has put it, and nothing else has changed.
func TestOfficialPayments(t *testing.T) {
	t.Parallel()
	for name, x := range exchanges(t, "paid") {
		paid, err := toolcall.Read([]byte(x.Body))
		if err != nil || !paid.Pays() {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var message struct {
			Params struct {
				Meta map[string]any `json:"_meta"`
			} `json:"params"`
		}
		var whole map[string]any
		if err := json.Unmarshal([]byte(x.Body), &message); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal([]byte(x.Body), &whole)
		credential := ""
		for _, key := range []string{"x402/payment", "x402.payment"} {
			switch value := message.Params.Meta[key].(type) {
			case string:
				credential = value
			case map[string]any:
				text, _ := json.Marshal(value)
				credential = base64.StdEncoding.EncodeToString(text)
			}
			delete(whole["params"].(map[string]any)["_meta"].(map[string]any), key)
		}
		payload, err := x402.DecodePayload(credential)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		unpaid, _ := json.Marshal(whole)
		c, err := toolcall.Read(unpaid)
		if err != nil || c.Pays() {
			t.Fatalf("%s: %v", name, err)
		}
		if c.Content() == paid.Content() {
			t.Errorf("%s: a call that pays by itself is another one", name)
		}
		again, err := toolcall.Read(c.Paid(dialects[x.Dialect], payload))
		if err != nil || !again.Pays() || again.ID() != c.ID() {
			t.Errorf("%s: %v", name, err)
		}
		var got, want map[string]any
		_ = json.Unmarshal(c.Paid(dialects[x.Dialect], payload), &got)
		_ = json.Unmarshal([]byte(x.Body), &want)
		meta := func(m map[string]any) map[string]any { return m["params"].(map[string]any)["_meta"].(map[string]any) }
		for key, value := range meta(want) {
			if a, b := jsonOf(value), jsonOf(meta(got)[key]); a != b {
				t.Errorf("%s: %s is %s, want %s", name, key, b, a)
			}
		}
	}
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func call(t *testing.T, params string) *toolcall.Call {
	t.Helper()
	c, err := toolcall.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
	if err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	return c
}

// Calls have one content if they ask for the same thing.
func TestContent(t *testing.T) {
	t.Parallel()
	plain := call(t, `{"name":"a","arguments":{"x":1,"y":["\u00e9",{"b":true,"a":null}]}}`).Content()
	for _, same := range []string{
		`{"arguments":{"y":["é",{"a":null,"b":true}],"x":1},"name":"a"}`,
		`{"name":"a","arguments":{"x":1,"y":["\u00e9",{"b":true,"a":null}]},"_meta":{"progressToken":"z","traceparent":"00-1","io.modelcontextprotocol/version":"1"}}`,
		` { "name" : "\u0061" , "arguments" : { "x" : 1 , "y" : [ "é" , {"b":true,"a":null} ] } } `,
	} {
		if got := call(t, same).Content(); got != plain {
			t.Errorf("%s\n%s, want %s", same, got, plain)
		}
	}
	for _, other := range []string{
		`{"name":"b","arguments":{"x":1,"y":["é",{"b":true,"a":null}]}}`,
		`{"name":"a","arguments":{"x":1.0,"y":["é",{"b":true,"a":null}]}}`,
		`{"name":"a","arguments":{"x":"1","y":["é",{"b":true,"a":null}]}}`,
		`{"name":"a","arguments":{"x":9007199254740993,"y":["é",{"b":true,"a":null}]}}`,
		`{"name":"a","arguments":{"x":9007199254740992,"y":["é",{"b":true,"a":null}]}}`,
		`{"name":"a","arguments":{"x":1,"y":[{"b":true,"a":null},"é"]}}`,
		`{"name":"a","arguments":{"x":1,"y":["é",{"b":true,"a":null}]},"_meta":{"tenant":"a"}}`,
		`{"name":"a"}`,
	} {
		got := call(t, other).Content()
		if got == plain {
			t.Errorf("%s is the same", other)
		}
		plain = got
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `5`, `[]`, `{}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}]`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"a"}}`,
		`{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":5}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"name":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`,
	} {
		if c, err := toolcall.Read([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, c)
		}
	}
	for text, want := range map[string]string{
		`{"id":"x","method":"resources/read","params":{"uri":"weather://Berlin/now"}}`: "mcp://shop.test/resource/weather:%2F%2FBerlin%2Fnow",
		`{"id":-1,"method":"prompts\/get","params":{"name":"a b"}}`:                    "mcp://shop.test/prompt/a%20b",
		`{"id":1,"method":"tools/call","params":{"name":".."}}`:                        "mcp://shop.test/tool/%2E%2E",
		`{"id":1,"method":"tools/call","params":{"name":"../../a"}}`:                   "mcp://shop.test/tool/..%2F..%2Fa",
	} {
		c, err := toolcall.Read([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Site(&url.URL{Scheme: "https", Host: "Shop.test:443", Path: "/mcp"}); got != want {
			t.Errorf("%s is booked as %s, want %s", text, got, want)
		}
	}
}

func TestPays(t *testing.T) {
	t.Parallel()
	for _, params := range []string{
		`{"name":"a","_meta":{"x402/payment":{}}}`, `{"name":"a","_meta":{"x402.payment":"x"}}`,
		`{"name":"a","_meta":{"org.paymentauth/credential":{}}}`, `{"name":"a","arguments":{"x402_payment":"x"}}`,
	} {
		if !call(t, params).Pays() {
			t.Errorf("%s does not pay", params)
		}
	}
}

// A refusal is an answer to the call, in the form that its method has.
func TestRefusal(t *testing.T) {
	t.Parallel()
	c := call(t, `{"name":"a"}`)
	got := string(c.Refusal("2025-06-18", "no \"money\"", json.RawMessage(`{"reason":"x"}`)))
	if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no \"money\""}],"isError":true,"_meta":{"purser/declined":{"reason":"x"}}}}`; got != want {
		t.Errorf("%s", got)
	}
	if got := string(c.Refusal("2026-07-28", "no", json.RawMessage(`{}`))); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("%s", got)
	}
	c, err := toolcall.Read([]byte(`{"jsonrpc":"2.0","id":"q","method":"prompts/get","params":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(c.Refusal("", "no", json.RawMessage(`{}`))), `{"jsonrpc":"2.0","id":"q","error":{"code":-32000,"message":"no","data":{"purser/declined":{}}}}`; got != want {
		t.Errorf("%s", got)
	}
}

// A relay that holds no call yet finds out which one a message is about.
func TestIDs(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`{"id":1,"result":{}}`:                      "1",
		`{"id":"\u0061","error":{}}`:                `"a"`,
		`{"id":1,"method":"ping"}`:                  "",
		`{"id":null,"error":{}}`:                    "",
		`{"result":{}}`:                             "",
		`[{"id":1,"result":{}}]`:                    "",
		`{"method":"x","params":{"requestId":1}}`:   "",
		`{"id":1,"id":2,"result":{"isError":true}}`: "2", // as clients read it
	} {
		if got := toolcall.Addressee([]byte(message)); got != want {
			t.Errorf("%s: %q", message, got)
		}
		if got := toolcall.Cancelled([]byte(message)); got != "" {
			t.Errorf("%s cancels %q", message, got)
		}
	}
	if got := toolcall.Cancelled([]byte(`{"method":"notifications/cancelled","params":{"requestId":"\u0061"}}`)); got != `"a"` {
		t.Errorf("%q", got)
	}
	call, err := toolcall.Read([]byte(`{"id":"\u0061","method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
	if err != nil || call.ID() != `"a"` || call.Version() != "2026-07-28" {
		t.Fatalf("%v, %+v", err, call)
	}
	if got := string(call.Adopt([]byte(`{"result":{},"jsonrpc":"2.0","id":7}`))); got != `{"result":{},"jsonrpc":"2.0","id":"\u0061"}` {
		t.Errorf("%s", got)
	}
}
