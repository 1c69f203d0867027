package toolcall_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/protocol/toolcall"
	"github.com/purserpay/purser/x402"
)

// The credential in a call of the official client is the one that purser puts there, and the seller's answers are
// read.
func TestOfficialMPP(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../mpp/testdata/mppx_mppx_mcp+again.json")
	if err != nil {
		t.Fatal(err)
	}
	var talk struct {
		Exchanges []struct{ Request, Answer json.RawMessage }
	}
	if err := json.Unmarshal(text, &talk); err != nil || len(talk.Exchanges) != 3 {
		t.Fatal(len(talk.Exchanges), err)
	}
	asked, paid, again := talk.Exchanges[0], talk.Exchanges[1], talk.Exchanges[2]
	call, err := toolcall.Read(asked.Request)
	if err != nil || call.Pays() {
		t.Fatal(err)
	}
	a := call.Hear(asked.Answer)
	if !a.Failed || a.Dialect != toolcall.DialectMPP {
		t.Fatalf("%+v", a)
	}
	c, found, err := protocol.Spoken().Offers(nil, nil, a.Terms)
	if err != nil || !found || len(c.Accepts) != 1 {
		t.Fatal(c, found, err)
	}
	r := c.Accepts[0]
	if r.Problem != nil || r.Network != "eip155:4217" || r.Amount.String() != "10000" || r.Rail() != mpp.RailTempo {
		t.Errorf("%+v", r)
	}
	official, err := toolcall.Read(paid.Request)
	if err != nil || !official.Pays() {
		t.Fatal(err)
	}
	var sent struct {
		Params struct {
			Meta struct {
				Credential struct {
					Payload map[string]string
					Source  string
				} `json:"org.paymentauth/credential"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal(paid.Request, &sent); err != nil {
		t.Fatal(err)
	}
	was := sent.Params.Meta.Credential
	from, err := x402.ParseAddress(was.Source[strings.LastIndexByte(was.Source, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	p, err := mpp.Payload(c.Offer(0), from, was.Payload)
	if err != nil {
		t.Fatal(err)
	}
	for _, dialect := range []toolcall.Dialect{toolcall.DialectMPP, toolcall.DialectX402} { // a repeat's terms may be others
		if got, want := meta(t, call.Paid(dialect, p)), meta(t, paid.Request); !reflect.DeepEqual(got, want) {
			t.Errorf("sent\n%v, want\n%v", got, want)
		}
	}
	receipt, err := protocol.MPP{}.DecodeReceipt(official.Hear(paid.Answer).Receipt)
	if err != nil || !x402.ValidTransaction(receipt.Transaction) {
		t.Errorf("receipt %v, %v", receipt, err)
	}
	used, err := toolcall.Read(again.Request)
	if err != nil {
		t.Fatal(err)
	}
	if a := used.Hear(again.Answer); !a.Failed || a.Terms == nil {
		t.Errorf("a used credential: %+v", a)
	}
}

// An error with MPP's code and without challenges is MCP's own.
func TestMCPAsksForAPage(t *testing.T) {
	t.Parallel()
	call, err := toolcall.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{
		`{"elicitations":[{"mode":"url","url":"https://a.example"}]}`, `{"challenges":{}}`, `{"challenges":[],"challenges":[]}`, `[]`, `null`,
	} {
		a := call.Hear([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x","data":` + data + `}}`))
		if !a.Failed || a.Terms != nil {
			t.Errorf("%s: %+v", data, a)
		}
	}
}

func meta(t *testing.T, body []byte) (m struct {
	Params struct {
		Meta map[string]any `json:"_meta"`
	}
},
) { //nolint:gofumpt // short
	t.Helper()
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
