package wallets

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/sandbox"
)

// excuse is the answer of a thief.
const excuse = `{"error":"out of order"}`

// thief sells what the sandbox's seller sells. It takes the money and answers 500.
func thief(t *testing.T, seller string) string {
	t.Helper()
	to, err := url.Parse(seller)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(resp *http.Response) error {
			if resp.Header.Get("Payment-Response") != "" {
				resp.StatusCode = http.StatusInternalServerError
				resp.Body = io.NopCloser(strings.NewReader(excuse))
				resp.ContentLength = int64(len(excuse))
				resp.Header.Set("Content-Length", strconv.Itoa(len(excuse)))
			}
			return nil
		},
	})
	t.Cleanup(front.Close)
	return front.URL
}

// A seller took the money and gave nothing. The reader of that payment's file checks it with viem alone, and notices a
// file that was changed.
func TestDispute(t *testing.T) {
	t.Parallel()
	verifier := process.Verifier(t, "../..")
	clock := process.NewClock(t)
	money, err := sandbox.Start(t.Context(), sandbox.Options{Now: clock.Now})
	process.CloseAtEnd(t, money, err)
	w := &world{sandboxed.On(t, money, process.Failpoints, clock.Setting())}
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create")
	w.Fund(*key.Address, 10*price)
	a, err := process.Ask(t.Context(), w.Client(key.Key), http.MethodGet, thief(t, money.SellerDirectURL())+"/weather", "")
	if err != nil || a.Status != http.StatusInternalServerError {
		t.Fatalf("%v, %+v", err, a)
	}
	var list []adminapi.Payment
	process.Eventually(t, time.Minute, func() string {
		if list = sandboxed.Ran[adminapi.Payments](w.World, "payments", "--undelivered").Payments; len(list) != 1 {
			return "the payment is not marked"
		}
		return ""
	})
	if p := list[0]; p.State != "settled" || *p.AnswerStatus != http.StatusInternalServerError {
		t.Errorf("%+v", p)
	}
	if out, err := w.Command(t, "payments", "dispute", list[0].ID); err == nil || !strings.Contains(out, "may still move the money") {
		t.Errorf("a signature that may be unused is given away: %v, %s", err, out)
	}
	clock.Forward(t, 10*time.Minute)
	file := filepath.Join(t.TempDir(), "dispute.json")
	w.Must(t, "payments", "dispute", list[0].ID, "--output", file)
	if out, err := verifier(file, "--rpc", money.RPCURL()); err != nil || strings.Count(out, "\nok ") != 11 || !strings.Contains(out, "the seller answered 500, and delivered nothing") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := verifier(file); err != nil {
		t.Errorf("without an RPC: %v\n%s", err, out)
	}
	for text, same := range map[string]bool{excuse: true, excuse + " ": false, excuse[1:]: false, "": false} {
		given := filepath.Join(t.TempDir(), "answer")
		if err := os.WriteFile(given, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := verifier(file, "--answer", given); (err == nil) != same {
			t.Errorf("%q as the answer: %v\n%s", text, err, out)
		}
	}
	for name, change := range map[string]func(d *adminapi.Dispute){
		"a smaller amount": func(d *adminapi.Dispute) { d.Terms.Amount = "1" },
		"another amount in all places": func(d *adminapi.Dispute) {
			d.Offered.Accepted = json.RawMessage(strings.Replace(string(d.Offered.Accepted), d.Terms.Amount, "99", 1))
			d.Terms.Amount, d.Authorization.TypedData.Message["value"] = "99", "99"
		},
		"another payee": func(d *adminapi.Dispute) { d.Terms.PayTo = *key.Address },
		"another nonce": func(d *adminapi.Dispute) {
			d.Authorization.TypedData.Message["nonce"] = "0x" + strings.Repeat("1", 64)
		},
		"another method":       func(d *adminapi.Dispute) { d.Request.Method = "POST" },
		"another request":      func(d *adminapi.Dispute) { d.Request.URL += "?more" },
		"another request hash": func(d *adminapi.Dispute) { d.Request.Hash[0]++ },
		"another transaction": func(d *adminapi.Dispute) {
			d.Chain.Transaction = "0x" + strings.Repeat("2", 64)
		},
	} {
		var d adminapi.Dispute
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
		change(&d)
		changed := filepath.Join(t.TempDir(), "changed.json")
		if text, err = json.Marshal(d); err == nil {
			err = os.WriteFile(changed, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := verifier(changed, "--rpc", money.RPCURL()); err == nil || !strings.Contains(out, "FAILED") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
