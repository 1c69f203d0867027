package stdio

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// chargingBank is a bank that pays by MPP.
func chargingBank(t *testing.T) *bank {
	t.Helper()
	b := newBank(t)
	b.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		credential := base64.RawURLEncoding.EncodeToString([]byte(`{"challenge":{"id":"a"},"payload":{"type":"authorization"}}`))
		_, _ = fmt.Fprintf(w, `{"paymentSignature":"Payment %s","paymentHeader":"Authorization","payment":{"id":"p0","state":"open"}}`, credential)
		return true
	}
	return b
}

// charges has the server ask by MPP, each time in other words.
func (p *parts) charges(id, n int) {
	p.t.Helper()
	p.write(p.serverOut, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32042,"message":"pay","data":{"challenges":[{"id":"c%d","realm":"shop","method":"evm","intent":"charge","request":{}}]}}}`, id, n)
}

// credential has the server get the call with a payment of MPP.
func (p *parts) credential() string {
	p.t.Helper()
	line := p.line(p.serverIn)
	if !strings.Contains(line, `"org.paymentauth/credential":{"challenge":{"id":"a"}`) {
		p.t.Fatalf("the server got %s", line)
	}
	return line
}

// A server that asks again after a credential of MPP gets the same one, two more times. Then its client is told.
func TestInsists(t *testing.T) {
	t.Parallel()
	for _, denials := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(denials), func(t *testing.T) {
			t.Parallel()
			b := chargingBank(t)
			p := start(t, b, t.TempDir())
			p.calls(1, "Kiel")
			p.charges(1, 0)
			first := p.credential()
			for n := range denials {
				p.charges(1, n+1)
				if n < 2 && p.credential() != first {
					t.Fatal("another message")
				}
			}
			if denials > 2 {
				if words := p.refused(1); !strings.Contains(words, "payment p0 was sent, and the server asks for money again") {
					t.Error(words)
				}
			} else {
				answer := p.delivers(1, "sunny")
				if got := p.line(p.fromRelay); got != answer {
					t.Error(got)
				}
			}
			p.end()
			if len(b.asked) != 1 {
				t.Errorf("purser was asked %d times", len(b.asked))
			}
		})
	}
}

// Before the same payment goes once more, another answer and the cancellation by the client change nothing. The end of the
// server ends the waiting.
func TestWhileItInsists(t *testing.T) {
	t.Parallel()
	b := chargingBank(t)
	p := start(t, b, t.TempDir())
	p.calls(1, "Kiel")
	p.charges(1, 0)
	p.credential()
	p.charges(1, 1)
	p.charges(1, 2)
	p.write(p.toRelay, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	p.credential()
	p.calls(2, "Kiel")
	p.charges(2, 3)
	p.delivers(1, "rain")
	if got := p.line(p.fromRelay); !strings.Contains(got, `"id":2`) || !strings.Contains(got, "rain") {
		t.Error(got)
	}
	p.calls(3, "Hamburg")
	p.charges(3, 4)
	p.credential()
	p.charges(3, 5)
	_ = p.serverOut.Close()
	if words := p.refused(3); !strings.Contains(words, "the server ended before it answered. Payment p0 was sent") {
		t.Error(words)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	if len(b.asked) != 2 {
		t.Errorf("purser was asked %d times", len(b.asked))
	}
}

// A server that spells the id of a call in another way, which clients take for the same, gets no terms to them behind a
// payment.
func TestIDsAsClientsReadThem(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`"1"`, "1.0", "1e0"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			b := newBank(t)
			p := start(t, b, t.TempDir())
			p.calls(1, "Kiel")
			p.asks(1)
			p.paid(1)
			p.write(p.serverOut, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s,"isError":true}}`, id, terms)
			if words := p.refused(1); !strings.Contains(words, "payment p0 was sent, and the server asks for money again") {
				t.Error(words)
			}
			p.end()
		})
	}
}

// Two calls have ids that differ in their spelling alone. Each gets its own answer.
func TestIDsInTwoSpellings(t *testing.T) {
	t.Parallel()
	p := start(t, newBank(t), t.TempDir())
	text := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Bonn"}}}`
	p.calls(1, "Kiel")
	p.write(p.toRelay, "%s", text)
	if got := p.line(p.serverIn); got != text {
		t.Fatal(got)
	}
	p.asks(1)
	p.paid(1)
	free := `{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`
	p.write(p.serverOut, "%s", free)
	if got := p.line(p.fromRelay); got != free {
		t.Error(got)
	}
	answer := p.delivers(1, "sunny")
	if got := p.line(p.fromRelay); got != answer {
		t.Error(got)
	}
	p.end()
}
