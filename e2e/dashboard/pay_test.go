package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// buy makes a request that purser pays for on its way. The answer must be a 200.
func (h *house) buy(key, task, address string) error {
	by := process.Client(&url.URL{Scheme: "http", Host: h.purser.Host(), User: url.UserPassword(key, task)}, nil)
	got, err := process.Ask(h.t.Context(), by, http.MethodGet, address, "")
	if err == nil && (got.Status != http.StatusOK || got.Header.Get("Purser-Payment") == "") {
		err = fmt.Errorf("%s: %+v", address, got)
	}
	return err
}

// unpaid makes a request that purser does not pay for, for a reason. header are names and values in turn.
func (h *house) unpaid(key, task, address, reason string, header ...string) error {
	by := process.Client(&url.URL{Scheme: "http", Host: h.purser.Host(), User: url.UserPassword(key, task)}, nil)
	got, err := process.Ask(h.t.Context(), by, http.MethodGet, address, "", header...)
	if err == nil && (got.Status != http.StatusPaymentRequired || got.Header.Get("Purser-Declined") != reason) {
		err = fmt.Errorf("%s: %+v", address, got)
	}
	return err
}

// settle pays for an answer of the sandbox's seller through POST /v1/pay, and gets it.
func (h *house) settle(key string) error {
	address := h.world.SellerDirectURL() + "/prepaid"
	asked, err := process.Ask(h.t.Context(), http.DefaultClient, http.MethodGet, address, "")
	if err != nil {
		return err
	}
	var result struct{ PaymentSignature, PaymentHeader string }
	err = h.rest("POST", "/v1/pay", key, map[string]string{
		"paymentRequiredHeader": asked.Header.Get(x402.HeaderRequired), "requestUrl": address, "idempotencyKey": uuid.NewString(),
	}, &result)
	if err != nil {
		return err
	}
	got, err := process.Ask(h.t.Context(), http.DefaultClient, http.MethodGet, address, "", result.PaymentHeader, result.PaymentSignature)
	if err == nil && got.Status != http.StatusOK {
		err = fmt.Errorf("the seller does not deliver what was paid for: %+v", got)
	}
	return err
}

// officialSeller starts an API that is sold by the official middleware @x402/express, and returns what it sells, under
// a name that purser knows. Where the official packages are missing, it is the sandbox's seller.
func (h *house) officialSeller() string {
	h.t.Helper()
	script := filepath.Join("..", "peers", "seller-v2.mjs")
	if _, err := os.Stat(filepath.Join("..", "peers", "node_modules", "@x402", "express")); err != nil {
		h.t.Log("the official packages are missing (run `make e2e-deps`): the sandbox's own seller sells")
		return h.world.SellerURL() + "/weather"
	}
	cmd := exec.Command("node", script)
	cmd.Env = process.Environment("FACILITATOR_URL="+h.world.FacilitatorURL(), "PAY_TO="+h.world.PayTo.String())
	p, line, err := process.Announced(cmd, func(string) bool { return true })
	if err != nil {
		h.t.Fatal(err)
	}
	p.Cleanup(h.t)
	var ready struct{ URL string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		h.t.Fatalf("%s: %v in %q", script, err, line)
	}
	at, err := url.Parse(ready.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	return "http://" + sandbox.SellerName + ":" + at.Port() + "/paid"
}

// startSandbox runs purser-sandbox as people do, and returns the dashboard's address that it prints when it is ready.
func startSandbox(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(process.Program(t, process.Offline), "-port", "0")
	cmd.Env, cmd.Dir = process.Environment(), t.TempDir()
	const word = "dashboard "
	p, line, err := process.Announced(cmd, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), word) })
	if err != nil {
		t.Fatal(err)
	}
	p.Cleanup(t)
	return strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), word))[0]
}
