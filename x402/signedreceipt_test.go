package x402_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

const receiptTx = "0x89c91c789e57059b17285e7ba1716a1f5ff4c5dace0ea5a5135f26158d0421b9"

// receiptWith is a receipt of a settlement with a signed one in it.
func receiptWith(t testing.TB, signed any) x402.Receipt {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"success": true, "transaction": receiptTx, "network": "eip155:8453", "extensions": x402test.Extensions(t, "receipt", signed),
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x402.DecodeReceipt(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSignedReceipts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s, another := x402test.NewSeller(t), x402test.NewSeller(t)
	payer := x402.EVMAddress([20]byte{7})
	of := x402.ReceiptTerms{
		Network: "base", Payer: payer, Payee: s.Address(), Resources: []string{"", offeredURL, "https://inside/report"},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Minute),
	}
	payload := x402test.Fields{
		"version": 1, "network": "eip155:8453", "resourceUrl": offeredURL, "payer": strings.ToLower(payer.String()), "issuedAt": now.Unix(), "transaction": "",
	}
	good := s.Receipt(payload)
	changed := func(name string, value any) x402test.Fields { return s.Receipt(payload.With(name, value)) }
	for name, tt := range map[string]struct {
		signed any
		kept   bool
	}{
		"its own":                     {good, true},
		"a transaction without 0x":    {changed("transaction", strings.ToUpper(receiptTx[2:])), false},
		"with its transaction":        {changed("transaction", receiptTx), true},
		"without a transaction":       {changed("transaction", nil), true},
		"another name of the page":    {changed("resourceUrl", "https://inside/report"), true},
		"a JWS":                       {jwsOf(t, payload), true},
		"a JWS without transaction":   {jwsOf(t, payload.With("transaction", nil)), true},
		"a JWS of another payer":      {jwsOf(t, payload.With("payer", another.Address().String())), false},
		"a JWS of two parts":          {x402test.Fields{"format": "jws", "signature": "e30.e30"}, false},
		"a JWS without signature":     {x402test.Fields{"format": "jws", "signature": "e30.e30."}, false},
		"another payer":               {changed("payer", another.Address().String()), false},
		"no payer":                    {changed("payer", "somebody"), false},
		"another network":             {changed("network", "eip155:84532"), false},
		"another page":                {changed("resourceUrl", "https://api.example.com/other"), false},
		"another transaction":         {changed("transaction", "0x"+strings.Repeat("ab", 32)), false},
		"too old":                     {changed("issuedAt", now.Unix()-120), false},
		"from the future":             {changed("issuedAt", now.Unix()+120), false},
		"another version":             {changed("version", 2), false},
		"signed by another":           {another.Receipt(payload), false},
		"changed after it was signed": {good.With("payload", payload.With("issuedAt", now.Unix()+1)), false},
		"signed as an offer":          {s.Offer(payload).With("payload", payload), false},
		"another format":              {good.With("format", "cose"), false},
		"no object":                   {"receipt", false},
		"huge":                        {good.With("more", strings.Repeat("x", x402.MaxSignedReceipt)), false},
	} {
		kept, err := receiptWith(t, tt.signed).SignedReceipt(of)
		if (kept != nil) != tt.kept || (err == nil) != tt.kept {
			t.Errorf("%s: kept %s, %v", name, kept, err)
		}
		if verified := !strings.Contains(name, "JWS"); tt.kept && x402.VerifiedReceipt(kept) != verified {
			t.Errorf("%s: verified %v", name, !verified)
		}
	}
	failed := receiptWith(t, good)
	failed.Success = false
	for name, r := range map[string]x402.Receipt{"of a failure": failed, "without an extension": {Success: true, Raw: json.RawMessage(`{"success":true}`)}} {
		if kept, err := r.SignedReceipt(of); kept != nil || err != nil {
			t.Errorf("%s: kept %s, %v", name, kept, err)
		}
	}
}

// jwsOf is a JWS with a payload. Its signature is none.
func jwsOf(t testing.TB, payload x402test.Fields) x402test.Fields {
	t.Helper()
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"ES256K","kid":"did:web:api.example.com#key-1"}`))
	return x402test.Fields{"format": "jws", "signature": header + "." + encode(text) + "." + encode([]byte("signature"))}
}

func TestOfferResourceURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"url":"https://a.example/x"}`: "https://a.example/x",
		`"https://a.example/y"`:         "https://a.example/y",
		`{"url":1}`:                     "",
		`[]`:                            "",
		``:                              "",
	} {
		if got := (x402.Offer{Version: 2, Resource: json.RawMessage(text)}).ResourceURL(); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := (x402.Offer{Version: 1, Accepted: json.RawMessage(`{"resource":"https://a.example/z"}`)}).ResourceURL(); got != "https://a.example/z" {
		t.Errorf("v1: %q", got)
	}
}
