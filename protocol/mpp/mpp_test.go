package mpp_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// talk is a file of testdata: the exchanges of an official client with an official seller.
type talk struct {
	Seller, Client, Rail string
	Exchanges            []struct {
		Request struct{ Headers map[string]string }
		Answer  struct {
			Status  int
			Headers map[string]any
			Body    any
		}
	}
}

// talks reads the files of exchanges over HTTP.
func talks(t *testing.T) map[string]talk {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	read := map[string]talk{}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of testdata
		if err != nil {
			t.Fatal(err)
		}
		var one talk
		if err := json.Unmarshal(text, &one); err == nil && !strings.Contains(file, "mcp") {
			read[filepath.Base(file)] = one
		}
	}
	return read
}

// header returns the values of a header field as HTTP has them, in Latin-1.
func header(values any) (lines []string) {
	list, is := values.([]any)
	if !is {
		list = []any{values}
	}
	for _, one := range list {
		text, _ := one.(string)
		var raw []byte
		for _, r := range text {
			raw = append(raw, byte(r))
		}
		lines = append(lines, string(raw))
	}
	return lines
}

// Each credential of an official client echoes a challenge as this package reads it, and its nonce is the one that
// the seller wants.
func TestOfficialCredentials(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for name, talk := range talks(t) {
		offers := map[string]x402.Requirement{}
		for _, e := range talk.Exchanges {
			if field := e.Request.Headers["authorization"] + e.Request.Headers["payment-authorization"]; strings.HasPrefix(field, "Payment ") {
				checkCredential(t, name, talk, offers, strings.TrimPrefix(field, "Payment "), e.Answer.Status, seen)
			}
			if lines := e.Answer.Headers["www-authenticate"]; lines != nil {
				list, found, err := mpp.Parse(header(lines))
				if !found || err != nil {
					t.Fatalf("%s: %v, %v", name, found, err)
				}
				for _, c := range list {
					r, err := c.Charge()
					if err != nil || r.Problem != nil {
						t.Fatalf("%s: %v, %v", name, err, r.Problem)
					}
					offers[c.Get("id")] = r
				}
			}
			if receipt := e.Answer.Headers["payment-receipt"]; receipt != nil {
				if r, err := mpp.DecodeReceipt(header(receipt)[0]); err != nil || !x402.ValidTransaction(r.Transaction) && !strings.Contains(name, "free") {
					t.Errorf("%s: receipt %v, %v", name, r, err)
				}
				seen["receipts"]++
			}
			body, is := e.Answer.Body.(string)
			if e.Answer.Status == http.StatusPaymentRequired && is && strings.Contains(body, "paymentauth.org") {
				if problem, _ := mpp.Problem([]byte(body)); problem == "" {
					t.Errorf("%s: no problem in %s", name, body)
				}
				seen["problems"]++
			}
		}
	}
	for _, want := range []string{"authorization", "transaction", "receipts", "problems"} {
		if seen[want] < 5 {
			t.Errorf("%d of %s", seen[want], want)
		}
	}
}

func checkCredential(t *testing.T, name string, talk talk, offers map[string]x402.Requirement, field string, status int, seen map[string]int) {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(field, "="))
	if err != nil {
		t.Fatal(name, err)
	}
	var official struct {
		Challenge map[string]any
		Payload   map[string]any
		Source    string
	}
	if err := json.Unmarshal(text, &official); err != nil {
		t.Fatal(name, err)
	}
	id, _ := official.Challenge["id"].(string)
	offer, known := offers[id]
	if !known {
		t.Fatalf("%s: a credential for the unknown challenge %q", name, id)
	}
	kind, _ := official.Payload["type"].(string)
	seen[kind]++
	nonce, _ := official.Payload["nonce"].(string)
	if same := strings.Fields(talk.Seller)[1] == strings.Fields(talk.Client)[1]; kind == "authorization" && same && offer.Nonce.String() != nonce {
		t.Errorf("%s: nonce %s, want %s (answered by %d)", name, offer.Nonce, nonce, status)
	}
	mine := credentialOf(t, offer, official.Payload)
	var own struct{ Challenge, Payload map[string]any }
	if err := json.Unmarshal(mine, &own); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(own.Challenge, official.Challenge) {
		t.Errorf("%s: echoed\n%v, want\n%v", name, own.Challenge, official.Challenge)
	}
	if kind == "authorization" {
		delete(own.Payload, "signature")
		for _, chosen := range []string{"from", "signature", "nonce", "validBefore", "to"} {
			delete(own.Payload, chosen)
			delete(official.Payload, chosen)
		}
		if !reflect.DeepEqual(own.Payload, official.Payload) {
			t.Errorf("%s: payload %v, want %v", name, own.Payload, official.Payload)
		}
	}
}

// credentialOf answers an offer.
func credentialOf(t *testing.T, r x402.Requirement, signed map[string]any) []byte {
	t.Helper()
	o := x402.Challenge{Version: mpp.Version, Accepts: []x402.Requirement{r}}.Offer(0)
	p, err := mpp.Payload(o, x402.EVMAddress([20]byte{1}), signed)
	if r.Nonce != nil {
		p, err = o.Payload(x402.Authorization{From: x402.EVMAddress([20]byte{1}), To: r.PayTo, Value: r.Amount, ValidBefore: 5, Nonce: *r.Nonce}, x402.Signature{1})
	}
	if err != nil {
		t.Fatal(err)
	}
	credential, err := mpp.Credential(p)
	if err != nil {
		t.Fatal(err)
	}
	return credential
}
