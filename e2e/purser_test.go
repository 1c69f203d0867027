package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// purser is cmd/purser with the configuration that people start from and the sellers' names.
type purser struct{ *process.Purser }

// newPurser prepares a purser that settles at a facilitator.
func newPurser(t *testing.T, facilitator string, settings ...string) *purser {
	t.Helper()
	return preparePurser(t, filepath.Join(t.TempDir(), "data"), facilitator, settings...)
}

func preparePurser(t *testing.T, data, facilitator string, settings ...string) *purser {
	t.Helper()
	settings = append([]string{"PURSER_FACILITATOR_URL=" + facilitator, "PURSER_RPC_URL=" + env.chain.RPCURL()}, settings...)
	p := &purser{process.NewPurser(t, process.Program(t, process.Plain), data, settings...)}
	p.Config = env.config
	return p
}

// sharedPurser is the purser of all tests that do not kill it. Its facilitator is reached through env.settlements.
func sharedPurser(t *testing.T) *purser {
	t.Helper()
	env.sharedMu.Lock()
	defer env.sharedMu.Unlock()
	if env.shared == nil {
		p := preparePurser(t, filepath.Join(env.dir, "shared"), env.settlements.url)
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		env.shared = p
		env.children = append(env.children, p.Process)
	}
	return env.shared
}

// start runs the program on its data directory and returns when it answers. The test ends it, which must go well.
func (p *purser) start(t *testing.T) {
	t.Helper()
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	p.Cleanup(t)
}

// proxyDirectives are the subdirectives of purser_proxy that make the sellers known.
func (w *world) proxyDirectives() string {
	text := "trust " + w.certificates.File + "\n"
	for _, name := range []string{nameV2, nameV1, nameOther} {
		text += "resolve " + name + " 127.0.0.1\n"
	}
	return text
}

// payer is an API key of a purser with one funded wallet.
type payer struct {
	host   string // of its purser, or of a wire in front of it
	key    string
	wallet common.Address
	purser *purser
}

func (p *purser) newPayer(t *testing.T) *payer {
	t.Helper()
	var created answer
	process.Eventually(t, 90*time.Second, func() string {
		// An address may make sixty keys a minute, and the tests share theirs.
		if created = send(t, direct, "POST", p.URL("/api-keys"), `{"label":"e2e"}`); created.Status == http.StatusTooManyRequests {
			return created.Body
		}
		return ""
	})
	made := struct{ Key string }{}
	decode(t, created, http.StatusCreated, &made)
	wallet := struct{ Address string }{}
	decode(t, send(t, direct, "POST", p.URL("/wallets"), `{"network":"base"}`, "X-Api-Key", made.Key), http.StatusCreated, &wallet)
	payer := &payer{p.Host(), made.Key, common.HexToAddress(wallet.Address), p}
	env.fund(t, payer.wallet)
	return payer
}

// through is the same payer, reaching its purser by another address.
func (p *payer) through(host string) *payer {
	return &payer{host, p.key, p.wallet, p.purser}
}

// decode reads a JSON answer of the expected status.
func decode(t *testing.T, a answer, status int, into any) {
	t.Helper()
	if err := a.Decode(status, into); err != nil {
		t.Fatal(err)
	}
}

// call makes one request to the REST API with the payer's key.
func (p *payer) call(t *testing.T, method, path, body string) answer {
	t.Helper()
	return send(t, direct, method, "http://"+p.host+path, body, "X-Api-Key", p.key)
}

// proxyURL returns the agent's proxy URL, with the API key as user name.
func (p *payer) proxyURL() *url.URL {
	return &url.URL{Scheme: "http", Host: p.host, User: url.User(p.key)}
}

// proxied is a Go client that sends everything through the proxy, one connection per request.
func (p *payer) proxied() *http.Client { return process.Client(p.proxyURL(), nil) }

// payment is a payment in the API's answers.
type payment struct {
	ID, State   string
	Flags       []string
	Settlement  string
	Amount      string
	PayTo       string
	RequestURL  string `json:"request_url"`
	Transaction string
}

func (p *payer) payments(t *testing.T, query string) []payment {
	t.Helper()
	var list struct{ Payments []payment }
	decode(t, p.call(t, "GET", "/v1/payments"+query, ""), http.StatusOK, &list)
	return list.Payments
}

func (p *payer) payment(t *testing.T, id string) payment {
	t.Helper()
	var one struct{ Payment payment }
	decode(t, p.call(t, "GET", "/v1/payments/"+id, ""), http.StatusOK, &one)
	return one.Payment
}

// spendEvent is one line of the books.
type spendEvent struct {
	ID, Amount, Currency string
	RequestURL           string `json:"request_url"`
}

func (p *payer) spend(t *testing.T) []spendEvent {
	t.Helper()
	var list struct{ Events []spendEvent }
	decode(t, p.call(t, "GET", "/v1/spend?limit=500", ""), http.StatusOK, &list)
	return list.Events
}

// payResult is a 200 of POST /v1/pay.
type payResult struct {
	PaymentSignature, PaymentHeader string
	Settled                         bool
	Transaction                     string
	Payment                         payment
}

// payBody is the body of POST /v1/pay for the 402 of a seller; more holds further names and values in turn.
func payBody(t *testing.T, challenge answer, requestURL string, more ...string) string {
	t.Helper()
	header := challenge.Header.Get(x402.HeaderRequired)
	if header == "" {
		header = base64Of(challenge.Body) // version 1 keeps its challenge in the body
	}
	fields := map[string]string{"paymentRequiredHeader": header, "requestUrl": requestURL}
	for i := 0; i < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	body, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// pay calls POST /v1/pay for the 402 of a seller and expects it to be paid.
func (p *payer) pay(t *testing.T, challenge answer, requestURL string, more ...string) payResult {
	t.Helper()
	var result payResult
	decode(t, p.call(t, "POST", "/v1/pay", payBody(t, challenge, requestURL, more...)), http.StatusOK, &result)
	return result
}

// requireOnce fails unless the payer's one payment, to a seller, is settled, in the books and on the chain exactly once.
func (p *payer) requireOnce(t *testing.T, to common.Address) {
	t.Helper()
	p.requireSettled(t, to, 1)
}

// requireSettled waits until the books of a payer show n settled payments of the price and nothing else, and fails
// unless the chain shows the same.
func (p *payer) requireSettled(t *testing.T, to common.Address, n int) {
	t.Helper()
	// Recovery looks 20 s after a payment began, and 40 s after that.
	process.Eventually(t, 90*time.Second, func() string {
		for _, one := range p.payments(t, "") {
			if one.State == "open" {
				return fmt.Sprintf("still open: %+v", one)
			}
		}
		return ""
	})
	env.requirePaid(t, p.wallet, to, n)
	if books := p.requireBooks(t); len(books.Payments) != n || len(books.Events) != n {
		t.Fatalf("want %d settled payments, got %+v", n, books)
	}
}
