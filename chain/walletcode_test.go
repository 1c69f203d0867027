package chain

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

// A wallet's code is named, and asked about a plain signature as the token would ask.
func TestCode(t *testing.T) {
	t.Parallel()
	delegated := "0xef0100" + strings.Repeat("ab", 20)
	magic := "0x1626ba7e" + strings.Repeat("0", 56)
	for name, c := range map[string]struct {
		code, answer, refusal string
		kind                  string
		accepts, fails        bool
	}{
		"no code":                      {code: `"0x"`},
		"unknown method":               {code: `{"code":-32601,"message":"no such method"}`},
		"the RPC fails":                {code: `{"code":-32000,"message":"busy"}`, fails: true},
		"a delegation that accepts":    {code: `"` + delegated + `"`, answer: magic, kind: "a delegation to 0x" + strings.Repeat("ab", 20) + " (EIP-7702)", accepts: true},
		"a delegation that reverts":    {code: `"` + delegated + `"`, refusal: `{"code":-32000,"message":"execution reverted"}`, kind: "a delegation to 0x" + strings.Repeat("ab", 20) + " (EIP-7702)"},
		"a contract that says nothing": {code: `"0x6001"`, answer: "0x", kind: "the code of a contract"},
		"a contract that says no":      {code: `"0x6001"`, answer: "0x" + strings.Repeat("f", 64), kind: "the code of a contract"},
		"a contract that fails":        {code: `"0x6001"`, refusal: `{"code":-32015,"message":"VM execution error"}`, kind: "the code of a contract"},
		"a contract without a way":     {code: `"0x6001"`, refusal: `{"code":-32000,"message":"invalid opcode: INVALID"}`, kind: "the code of a contract"},
		"the call is late":             {code: `"0x6001"`, refusal: `{"code":-32000,"message":"request timed out"}`, fails: true},
		"the call is not answered":     {code: `"0x6001"`, refusal: `{"code":-32005,"message":"limit exceeded"}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked string
			rpc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var q struct {
					Method string
					Params []json.RawMessage
				}
				_ = json.NewDecoder(r.Body).Decode(&q)
				field, value := "result", c.code
				if q.Method == "eth_call" {
					if asked = string(q.Params[0]); c.refusal != "" {
						value = c.refusal
					} else {
						value = `"` + c.answer + `"`
					}
				}
				if strings.HasPrefix(value, "{") {
					field = "error"
				}
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"`+field+`":`+value+`}`)
			}))
			defer rpc.Close()
			client, err := New(Options{URL: rpc.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			n := x402.DefaultNetworks()[0]
			got, err := client.Code(t.Context(), n, n.Assets[0], x402.EVMAddress([20]byte{19: 1}), func(context.Context) ([32]byte, x402.Signature, error) {
				return [32]byte{31: 7}, x402.Signature{64: 27}, nil
			})
			if (err != nil) != c.fails || got.Kind != c.kind && !c.fails || got.Accepts != c.accepts {
				t.Errorf("%+v, %v", got, err)
			}
			if want := "0x1626ba7e" + strings.Repeat("0", 63) + "7" + strings.Repeat("0", 62) + "40" + strings.Repeat("0", 62) + "41" + strings.Repeat("0", 128) + "1b" + strings.Repeat("0", 62); c.answer != "" &&
				(!strings.Contains(asked, `"data":"`+want+`"`) || !strings.Contains(strings.ToLower(asked), `"from":"`+strings.ToLower(n.Assets[0].Address.String()))) {
				t.Errorf("asked %s", asked)
			}
		})
	}
}
