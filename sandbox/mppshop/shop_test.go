package mppshop_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/mppshop"
	"github.com/purserpay/purser/x402"
)

// world is the sandbox of all tests.
var world *sandbox.World

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	w, err := sandbox.Start(context.Background(), sandbox.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	world = w
	status := m.Run()
	if err := w.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// stall is a shop with its address.
type stall struct {
	*mppshop.Shop
	url string
}

func open(t *testing.T, o mppshop.Options) stall {
	t.Helper()
	o.PayTo = world.PayTo
	o.Till = honest.Till{Facilitator: world.FacilitatorURL(), Client: world.Client()}
	shop := mppshop.New(o)
	server := httptest.NewServer(shop)
	t.Cleanup(func() {
		server.Close()
		shop.Close()
	})
	return stall{shop, server.URL}
}

// buyer sends one credential for a challenge, up to three times.
type buyer struct {
	t    *testing.T
	key  *x402.Key
	to   string
	body string
	head http.Header
}

func newBuyer(t *testing.T, to string) *buyer {
	t.Helper()
	key, err := x402.NewKey()
	if err == nil {
		err = world.Fund(t.Context(), key.Address(), money.New(1_000_000))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &buyer{t, key, to, "", http.Header{"Accept-Payment": {"evm/charge"}}}
}

// debits counts the payments of the buyer.
func (b *buyer) debits() int {
	b.t.Helper()
	from := common.Address(b.key.Address().EVM())
	moved, err := world.Chain.Transfers(context.Background(), &from, nil, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(moved)
}

// answer holds the seller's answer.
type answer struct {
	status int
	header http.Header
	body   string
}

var plainClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (b *buyer) ask(name, value string) (a answer, err error) {
	method := http.MethodGet
	if b.body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(context.Background(), method, b.to, strings.NewReader(b.body))
	if err != nil {
		return a, err
	}
	r.Header = b.head.Clone()
	if name != "" {
		r.Header.Set(name, value)
	}
	resp, err := plainClient.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// challenges reads the challenges of an answer: maps of their parameters.
func (a answer) challenges() (all []map[string]string) {
	for _, line := range a.header.Values("WWW-Authenticate") {
		all = append(all, parse(line)...)
	}
	return all
}

// parse reads one line. It knows no more than what the shop writes.
func parse(line string) (all []map[string]string) {
	isToken := func(r rune) bool {
		return strings.ContainsRune("-_.~%", r) || r >= '0' && r <= '9' || r|32 >= 'a' && r|32 <= 'z'
	}
	skip := func(set string) { line = strings.TrimLeft(line, set) }
	token := func() string {
		rest := strings.TrimLeftFunc(line, isToken)
		word := line[:len(line)-len(rest)]
		line = rest
		return word
	}
	var now map[string]string
	for skip(", \t"); line != ""; skip(", \t") {
		word := token()
		if skip(" \t"); !strings.HasPrefix(line, "=") {
			now = map[string]string{}
			if strings.EqualFold(word, "Payment") {
				all = append(all, now)
			}
			if word == "" {
				return all
			}
			continue
		}
		line = line[1:]
		skip(" \t")
		now[strings.ToLower(word)] = value(&line, token)
	}
	return all
}

func value(line *string, token func() string) string {
	if !strings.HasPrefix(*line, `"`) {
		return token()
	}
	var out []uint16
	for i := 1; i < len(*line); i++ {
		switch c := (*line)[i]; c {
		case '"':
			*line = (*line)[i+1:]
			return string(utf16.Decode(out))
		case '\\':
			i++
			if c = (*line)[i]; c == 'u' {
				var unit uint16
				fmt.Sscanf((*line)[i+1:i+5], "%04x", &unit)
				out, i = append(out, unit), i+4
				continue
			}
			out = append(out, uint16(c))
		default:
			out = append(out, uint16(c))
		}
	}
	return ""
}

// credential answers the first evm challenge.
func (b *buyer) credential(c map[string]string) string {
	b.t.Helper()
	request, err := base64.RawURLEncoding.DecodeString(c["request"])
	if err != nil {
		b.t.Fatal(err)
	}
	var terms struct{ Amount, Recipient string }
	if err := json.Unmarshal(request, &terms); err != nil {
		b.t.Fatal(err)
	}
	base, usdc := honest.Network()
	a := x402.Authorization{From: b.key.Address(), ValidBefore: uint64(time.Now().Add(time.Minute).Unix())}
	bound := c["id"] + c["realm"]
	if strings.Contains(c["opaque"], base64.RawURLEncoding.EncodeToString([]byte(`{"_mpp_nonce`))[:10]) {
		bound = fmt.Sprintf(`["%s","%s"]`, c["id"], c["realm"])
	}
	a.Nonce = x402.Nonce(crypto.Keccak256([]byte(bound)))
	if a.To, err = x402.ParseAddress(terms.Recipient); err == nil {
		a.Value, err = money.Parse(terms.Amount)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	signature, err := b.key.Sign(a.Digest(usdc, base.ChainID))
	if err != nil {
		b.t.Fatal(err)
	}
	echo := map[string]string{}
	for _, name := range []string{"id", "realm", "method", "intent", "request", "description", "digest", "expires", "header", "opaque"} {
		if c[name] != "" {
			echo[name] = c[name]
		}
	}
	text, _ := json.Marshal(map[string]any{
		"challenge": echo, "source": "did:pkh:eip155:8453:" + a.From.String(),
		"payload": map[string]string{
			"type": "authorization", "from": a.From.String(), "to": a.To.String(), "value": terms.Amount, "validAfter": "0",
			"validBefore": fmt.Sprint(a.ValidBefore), "nonce": a.Nonce.String(), "signature": signature.String(),
		},
	})
	return "Payment " + base64.RawURLEncoding.EncodeToString(text)
}

// payX402 answers the challenge of x402.
func (b *buyer) payX402(first answer) string {
	b.t.Helper()
	c, err := x402.DecodeHeader(first.header.Get("PAYMENT-REQUIRED"))
	if err != nil {
		b.t.Fatal(err)
	}
	base, usdc := honest.Network()
	q := c.Accepts[0]
	nonce := x402.Nonce(crypto.Keccak256(fmt.Append(nil, time.Now())))
	a := x402.Authorization{From: b.key.Address(), To: q.PayTo, Value: q.Amount, ValidBefore: uint64(time.Now().Add(time.Minute).Unix()), Nonce: nonce}
	signature, err := b.key.Sign(a.Digest(usdc, base.ChainID))
	if err != nil {
		b.t.Fatal(err)
	}
	text, _ := json.Marshal(map[string]any{
		"x402Version": 2, "accepted": q.Raw, "payload": map[string]any{"signature": signature, "authorization": a},
	})
	return base64.StdEncoding.EncodeToString(text)
}

// buy buys, and returns the last answer.
func (b *buyer) buy(place string) (last answer) {
	b.t.Helper()
	first, err := b.ask("", "")
	if err != nil || first.status != http.StatusPaymentRequired {
		b.t.Errorf("%+v, %v", first, err)
		return first
	}
	all := first.challenges()
	i := slices.IndexFunc(all, func(c map[string]string) bool {
		_, err := base64.RawURLEncoding.DecodeString(c["request"])
		return c["method"] == "evm" && err == nil
	})
	name, text := "PAYMENT-SIGNATURE", ""
	if i < 0 {
		text = b.payX402(first)
	} else {
		name, text = "Authorization", b.credential(all[i])
		if place != "" {
			name = place
		}
	}
	for try := range 3 {
		if try > 0 {
			time.Sleep(400 * time.Millisecond)
		}
		last, err = b.ask(name, text)
		if err == nil && last.status < 500 && last.status != http.StatusPaymentRequired {
			return last
		}
	}
	if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		b.t.Error(err)
	}
	return last
}

// Each play ends as it says for a buyer who sends one credential.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{})
	var all sync.WaitGroup // all at once, because they can share blocks
	defer all.Wait()
	for _, p := range mppshop.Plays() {
		if p.Outcome == mppshop.Declined {
			continue
		}
		all.Go(func() {
			t.Run(p.Name, func(t *testing.T) {
				b := newBuyer(t, s.url+"/"+p.Name)
				last := b.buy(p.Header)
				s.settleAll(t, p)
				n, debits := s.Count("/"+p.Name), b.debits()
				want := map[mppshop.Outcome][2]int{mppshop.Delivered: {1, 1}, mppshop.Taken: {1, 0}, mppshop.Refused: {0, 0}, mppshop.Given: {0, 1}}[p.Outcome]
				if delivered := last.status == http.StatusOK; debits != want[0] || delivered != (want[1] == 1) {
					t.Errorf("%d debits, %+v", debits, last)
				}
				if n.Distinct != 1 || n.Settlements != want[0] || n.Answers != want[1] || len(n.Refusals) > 0 {
					t.Errorf("%+v", n)
				}
			})
		})
	}
}

// settleAll waits for the settlement of a late play.
func (s stall) settleAll(t *testing.T, p mppshop.Play) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); strings.HasPrefix(p.Name, "late") && s.Count("/"+p.Name).Settlements == 0; {
		if time.Now().After(end) {
			t.Fatal("no settlement")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A storm takes each buyer's money once, and gives each the good.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{Seed: 1})
	var all sync.WaitGroup
	for i := range 12 {
		b := newBuyer(t, fmt.Sprintf("%s/storm?n=%d", s.url, i))
		all.Go(func() {
			if last := b.buy(""); last.status != http.StatusOK || b.debits() != 1 {
				t.Errorf("%d: %d debits, %+v", i, b.debits(), last)
			}
		})
	}
	all.Wait()
	if n := s.Count(""); n.Settlements != 12 || n.Answers != 12 || n.Distinct != 12 || n.Credentials == 12 {
		t.Errorf("%+v", n)
	}
}

// Requests at one time get one id, and only one buyer's wallet can pay with it.
func TestTwins(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{Now: func() time.Time { return time.Now().Truncate(time.Hour) }, Validity: 2 * time.Hour})
	b := newBuyer(t, s.url+"/twins?n=1")
	one, _ := b.ask("", "")
	two, _ := b.ask("", "")
	if a, c := one.challenges()[0]["id"], two.challenges()[0]["id"]; a != c || a == "" {
		t.Errorf("%q, %q", a, c)
	}
	if one, _ = b.ask("", ""); one.header.Get("WWW-Authenticate") != two.header.Get("WWW-Authenticate") {
		t.Error("not the same")
	}
}

// A credential pays for the body of its challenge, and for its path, and once.
func TestBinding(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{})
	b := newBuyer(t, s.url+"/digest")
	b.body = "the body\x00\xff"
	first, err := b.ask("", "")
	if err != nil {
		t.Fatal(err)
	}
	text := b.credential(first.challenges()[0])
	b.body = "another body"
	if got, err := b.ask("Authorization", text); err != nil || got.status != http.StatusPaymentRequired || !strings.Contains(got.body, "the body is not") {
		t.Errorf("%+v, %v", got, err)
	}
	b.body = "the body\x00\xff"
	if got, err := b.ask("Authorization", text); err != nil || got.body != b.body {
		t.Errorf("%+v, %v", got, err)
	}
	b.to = s.url + "/weather"
	if got, err := b.ask("Authorization", text); err != nil || got.status != http.StatusPaymentRequired {
		t.Errorf("%+v, %v", got, err)
	}
	if n := b.debits(); n != 1 {
		t.Errorf("%d debits", n)
	}
}

// The shop finds each fault of a credential.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{})
	var all sync.WaitGroup
	defer all.Wait()
	for name, change := range map[string]func(c, challenge, payload map[string]any){
		"amount":         func(_, _, p map[string]any) { p["value"] = "9999" },
		"recipient":      func(_, _, p map[string]any) { p["to"] = "0x00000000000000000000000000000000000000aa" },
		"challenge hash": func(_, _, p map[string]any) { p["nonce"] = "0x" + strings.Repeat("11", 32) },
		"signature":      func(_, _, p map[string]any) { p["validBefore"] = fmt.Sprint(time.Now().Add(time.Second * 90).Unix()) },
		"has expired":    func(_, _, p map[string]any) { p["validBefore"] = "1" },
		"too long":       func(_, _, p map[string]any) { p["validBefore"] = "99999999999" },
		"not valid yet":  func(_, _, p map[string]any) { p["validAfter"] = "99999999999" },
		"type":           func(_, _, p map[string]any) { p["type"] = "hash" },
		"source": func(c, _, _ map[string]any) {
			c["source"] = "did:pkh:eip155:1:0x00000000000000000000000000000000000000aa"
		},
		"was not issued":          func(_, c, _ map[string]any) { c["expires"] = "2099-01-01T00:00:00Z" },
		"is not echoed":           func(_, c, _ map[string]any) { delete(c, "description") },
		"unknown field \\\"extra": func(c, _, _ map[string]any) { c["extra"] = "" },
		"is not echoed as it was": func(_, c, _ map[string]any) { c["x-note"] = "mine" },
		"nonce: ":                 func(_, _, p map[string]any) { p["nonce"] = "" },
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				b := newBuyer(t, s.url+"/weather?"+fmt.Sprint(len(name)))
				first, err := b.ask("", "")
				if err != nil {
					t.Fatal(err)
				}
				_, text, _ := strings.Cut(b.credential(first.challenges()[0]), " ")
				raw, _ := base64.RawURLEncoding.DecodeString(text)
				var c map[string]any
				if err := json.Unmarshal(raw, &c); err != nil {
					t.Fatal(err)
				}
				change(c, c["challenge"].(map[string]any), c["payload"].(map[string]any))
				raw, _ = json.Marshal(c)
				got, err := b.ask("Authorization", "Payment "+base64.RawURLEncoding.EncodeToString(raw))
				if err != nil || got.status != http.StatusPaymentRequired || !strings.Contains(got.body, name) || len(got.challenges()) != 1 {
					t.Errorf("%+v, %v", got, err)
				}
				if n := b.debits(); n != 0 {
					t.Errorf("%d debits", n)
				}
			})
		})
	}
}

// A redirect leads to another origin, which counts the credentials that come along.
func TestRedirect(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{})
	last := newBuyer(t, s.url+"/redirect").buy("")
	to := last.header.Get("Location")
	if last.status != http.StatusTemporaryRedirect || to != strings.Replace(s.url, "127.0.0.1", "localhost", 1)+"/caught" {
		t.Errorf("%+v", last)
	}
	if got, err := (&buyer{t: t, to: s.url + "/caught", head: http.Header{}}).ask("Payment-Authorization", "Payment x"); err != nil || got.status != http.StatusOK {
		t.Errorf("%+v, %v", got, err)
	}
	if n := s.Count("/caught").Caught; n != 1 {
		t.Errorf("%d", n)
	}
}

// The list has each play with an outcome.
func TestList(t *testing.T) {
	t.Parallel()
	s := open(t, mppshop.Options{})
	got, err := (&buyer{t: t, to: s.url, head: http.Header{}}).ask("", "")
	if err != nil || strings.Count(got.body, `"outcome":"`) != len(mppshop.Plays()) || !bytes.Contains([]byte(got.body), []byte(`"path":"/storm"`)) {
		t.Errorf("%+v, %v", got, err)
	}
	names := map[string]bool{}
	for _, p := range mppshop.Plays() {
		if names[p.Name] || p.Outcome == "" || p.About == "" {
			t.Errorf("%+v", p)
		}
		names[p.Name] = true
	}
}
