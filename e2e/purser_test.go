package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/x402"
)

// purser is a running cmd/purser with the configuration file that people start from.
type purser struct {
	*child
	binary string
	data   string // directory of the database
	port   int    // stays the same when it is started again
	// config is a configuration file other than the shipped one with the sellers' names; may be empty.
	config string
	// settings are further variables of its environment.
	settings map[string]string
	// upstreamPort is where its sidecar door listens.
	upstreamPort int
}

// sharedPurser is the purser of all tests that do not kill it. Its facilitator is reached through env.settlements.
func sharedPurser(t *testing.T) *purser {
	t.Helper()
	binary := env.binary(t, "purser", "PURSER_BIN")
	env.sharedMu.Lock()
	defer env.sharedMu.Unlock()
	if env.shared == nil {
		p := &purser{binary: binary, data: filepath.Join(env.dir, "shared"), port: freePort(t)}
		if err := p.start(env.ctx, env.settlements.url); err != nil {
			t.Fatal(err)
		}
		env.shared = p
		env.children = append(env.children, p.child)
	}
	return env.shared
}

// start runs the binary on its data directory and returns when it answers.
func (p *purser) start(ctx context.Context, facilitator string) error {
	if p.config == "" {
		var err error
		if p.config, err = sellersConfig(); err != nil {
			return err
		}
	}
	ports, err := env.ports.Take(2)
	if err != nil {
		return err
	}
	p.upstreamPort = ports[0]
	cmd := exec.Command(p.binary, "run", "--config", p.config)
	cmd.Env = append(p.environment(), assignments(map[string]string{
		"PURSER_UPSTREAM_PORT":   strconv.Itoa(p.upstreamPort),
		"PURSER_METRICS_PORT":    strconv.Itoa(ports[1]),
		"PURSER_FACILITATOR_URL": facilitator,
		"PURSER_RPC_URL":         env.chain.RPCURL(),
	})...)
	cmd.Env = append(cmd.Env, assignments(p.settings)...)
	if p.child, err = startChild(ctx, "purser", cmd, func(string) {}); err != nil {
		return err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		res, err := direct.Get(p.url("/"))
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("status %d", res.StatusCode)
		}
		select {
		case <-p.done:
			return fmt.Errorf("purser ended: %w\n%s", p.err, p.log)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.kill()
			return fmt.Errorf("purser does not answer: %w\n%s", err, p.log)
		}
	}
}

// environment is what purser's own commands are told beside the configuration.
func (p *purser) environment() []string {
	return append(baseEnvironment(), assignments(map[string]string{
		"PURSER_PORT":     strconv.Itoa(p.port),
		"PURSER_ADMIN":    "unix/" + p.socket() + "|0600",
		"PURSER_DATA_DIR": p.data,
	})...)
}

// socket is where its admin endpoint listens.
func (p *purser) socket() string { return p.data + ".sock" }

// sellersConfig is the configuration that people start from, in a file, with what the tests need beside it: the sellers'
// names, and their certificates' authority.
func sellersConfig() (string, error) {
	text, err := os.ReadFile("../xcaddy.Caddyfile")
	if err != nil {
		return "", err
	}
	const place = "purser_proxy {\n"
	before, after, found := strings.Cut(string(text), place)
	if !found {
		return "", fmt.Errorf("no %q in the configuration", place)
	}
	file, err := os.CreateTemp(env.dir, "*.Caddyfile")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(before + place + proxyDirectives() + after)
	return file.Name(), errors.Join(err, file.Close())
}

// proxyDirectives are the subdirectives of purser_proxy that make the sellers known.
func proxyDirectives() string {
	text := "trust " + env.certificates.root + "\n"
	for _, name := range []string{nameV2, nameV1, nameOther} {
		text += "resolve " + name + " 127.0.0.1\n"
	}
	return text
}

func (p *purser) host() string           { return "127.0.0.1:" + strconv.Itoa(p.port) }
func (p *purser) url(path string) string { return "http://" + p.host() + path }

// freePort finds a port for a server of its own.
func freePort(t *testing.T) int {
	t.Helper()
	ports, err := env.ports.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

// payer is an API key of a purser with one funded wallet.
type payer struct {
	host   string // of its purser, or of a wire in front of it
	key    string
	wallet common.Address
	purser *purser // nil if it is a sandbox's
}

func (p *purser) newPayer(t *testing.T) *payer {
	t.Helper()
	var created answer
	eventually(t, 90*time.Second, func() string {
		// One address may make sixty keys a minute, and the tests share theirs.
		if created = send(t, direct, "POST", p.url("/api-keys"), `{"label":"e2e"}`); created.status == http.StatusTooManyRequests {
			return created.body
		}
		return ""
	})
	made := struct{ Key string }{}
	decode(t, created, http.StatusCreated, &made)
	wallet := struct{ Address string }{}
	decode(t, send(t, direct, "POST", p.url("/wallets"), `{"network":"base"}`, "X-Api-Key", made.Key), http.StatusCreated, &wallet)
	payer := &payer{p.host(), made.Key, common.HexToAddress(wallet.Address), p}
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
	requireStatus(t, a, status)
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// call makes one request to the REST API with the payer's key.
func (p *payer) call(t *testing.T, method, path, body string) answer {
	t.Helper()
	return send(t, direct, method, "http://"+p.host+path, body, "X-Api-Key", p.key)
}

// proxyURL is what an agent is told: the API key is the user name.
func (p *payer) proxyURL() *url.URL {
	return &url.URL{Scheme: "http", Host: p.host, User: url.User(p.key)}
}

// proxied is a Go client that sends everything through the proxy, one connection per request.
func (p *payer) proxied() *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyURL(p.proxyURL()), DisableKeepAlives: true},
		Timeout:   60 * time.Second,
	}
}

// payment is what the API shows of a payment.
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
	header := challenge.header.Get(x402.HeaderRequired)
	if header == "" {
		header = base64Of(challenge.body) // version 1 keeps its challenge in the body
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
	eventually(t, 90*time.Second, func() string {
		for _, one := range p.payments(t, "") {
			if one.State == "open" {
				return fmt.Sprintf("still open: %+v", one)
			}
		}
		return ""
	})
	settled := p.payments(t, "?state=settled")
	if all := p.payments(t, ""); len(settled) != n || len(all) != n {
		t.Fatalf("want %d settled payments, got %+v", n, all)
	}
	env.requirePaid(t, p.wallet, to, n)
	onChain := map[string]bool{}
	for _, transfer := range env.paid(t, p.wallet) {
		onChain[transfer.Tx] = true
	}
	for _, one := range settled {
		if !onChain[one.Transaction] {
			t.Fatalf("transaction %q of %s is not on the chain", one.Transaction, one.ID)
		}
		delete(onChain, one.Transaction) // no two payments may claim one
	}
	events := p.spend(t)
	if len(events) != n {
		t.Fatalf("%d spend events, want %d: %+v", len(events), n, events)
	}
	for _, event := range events {
		if event.Amount != strconv.Itoa(price) || event.Currency != "USDC" || !strings.HasPrefix(event.RequestURL, "http") {
			t.Fatalf("spend event %+v", event)
		}
	}
}
