package external_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/signer/external"
	"github.com/purserpay/purser/x402"
)

// stub is a JSON-RPC signer that fails as it is told.
type stub struct {
	keys []*ecdsa.PrivateKey
	only string // the one method for typed data that it knows; "": both

	calls  atomic.Int64
	mu     sync.Mutex
	faults faults
	signed []string // hashes
}

// faults say how a stub fails.
type faults struct {
	// before, when set, answers instead if it returns true.
	before func(w http.ResponseWriter, r *http.Request, call int64) bool
	// spoil, when set, changes a signature.
	spoil func(text string) any
	// chain, when set, signs for another chain than it was asked to.
	chain string
}

// fail has the requests from now on fail. Earlier ones may still be served.
func (s *stub) fail(f faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func newStub(t *testing.T, accounts int) *stub {
	t.Helper()
	s := &stub{}
	for range accounts {
		key, err := crypto.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		s.keys = append(s.keys, key)
	}
	return s
}

func addressOf(key *ecdsa.PrivateKey) x402.Address {
	return x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := s.calls.Add(1)
	s.mu.Lock()
	f := s.faults
	s.mu.Unlock()
	if f.before != nil && f.before(w, r, call) {
		return
	}
	var asked struct {
		ID     int
		Method string
		Params []string
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": asked.ID}
	result, code, err := s.do(f, asked.Method, asked.Params)
	if answer["result"] = result; err != nil {
		delete(answer, "result")
		answer["error"] = map[string]any{"code": code, "message": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *stub) do(f faults, method string, params []string) (any, int, error) {
	switch {
	case method == "eth_accounts":
		lent := []string{}
		for _, key := range s.keys {
			lent = append(lent, strings.ToLower(addressOf(key).String()))
		}
		return lent, 0, nil
	case method == "personal_sign" && s.only == "":
		text, err := hexutil.Decode(params[0])
		if err != nil {
			return nil, -32602, err
		}
		for _, key := range s.keys {
			if strings.EqualFold(addressOf(key).String(), params[1]) {
				signature, err := crypto.Sign(accounts.TextHash(text), key)
				return hexutil.Encode(signature), 0, err
			}
		}
		return nil, -32000, errors.New("authentication needed: password or unlock")
	case !strings.HasPrefix(method, "eth_signTypedData") || s.only != "" && method != s.only:
		return nil, -32601, errors.New("the method " + method + " does not exist")
	}
	var data apitypes.TypedData
	if err := json.Unmarshal([]byte(params[1]), &data); err != nil {
		return nil, -32602, err
	}
	if f.chain != "" {
		_ = json.Unmarshal([]byte(f.chain), &data.Domain.ChainId)
	}
	hash, _, err := apitypes.TypedDataAndHash(data)
	if err != nil {
		return nil, -32602, err
	}
	for _, key := range s.keys {
		if !strings.EqualFold(addressOf(key).String(), params[0]) {
			continue
		}
		signature, err := crypto.Sign(hash, key)
		if err != nil {
			return nil, -32000, err
		}
		signature[64] += 27
		s.mu.Lock()
		s.signed = append(s.signed, hexutil.Encode(hash))
		s.mu.Unlock()
		if text := hexutil.Encode(signature); f.spoil != nil {
			return f.spoil(text), 0, nil
		}
		return hexutil.Encode(signature), 0, nil
	}
	return nil, -32000, errors.New("authentication needed: password or unlock")
}

// world is a payer and books over an external signer.
type world struct {
	t      *testing.T
	stub   *stub
	signer *external.Signer
	store  *memory.Store
	books  *books.Books
	payer  *pay.Payer
	key    pay.Key
}

const bearer = "a-bearer-token"

func newWorld(t *testing.T, s *stub) *world {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	w := &world{t: t, stub: s, store: memory.New(memory.Options{})}
	var err error
	if w.signer, err = external.New(external.Options{URL: server.URL, Key: bearer, Timeout: 2 * time.Second, Lent: w.store}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.signer.Close)
	made := paytest.NewWorld(t, pay.Options{Store: w.store, Wallets: w.signer})
	w.books, w.payer = made.Books, made.Payer
	if w.key, _, err = w.books.CreateKey(t.Context(), books.KeyRequest{Label: "test"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// pay has a payment signed that a seller settles. It leaves the answer undelivered.
func (w *world) pay() (*pay.Payment, error) {
	w.t.Helper()
	a, err := w.payer.Open(w.t.Context(), paytest.Proxied(w.t, w.key, "https://api.example.com/", "100"))
	if err != nil {
		if failed, ok := errors.AsType[*pay.FailedError](err); ok {
			return failed.Payment, err
		}
		return nil, err
	}
	a.Abandon("only signed")
	return a.Payment(), nil
}

func (w *world) wallet() pay.Wallet {
	w.t.Helper()
	made, err := w.books.CreateWallet(w.t.Context(), w.key, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func TestPaysWithAnAccountOfTheSigner(t *testing.T) {
	t.Parallel()
	for _, only := range []string{"", "eth_signTypedData_v4", "eth_signTypedData"} {
		s := newStub(t, 1)
		s.only = only
		s.fail(faults{before: func(_ http.ResponseWriter, r *http.Request, _ int64) bool {
			if got := r.Header.Get("Authorization"); got != "Bearer "+bearer {
				t.Errorf("authorization %q", got)
			}
			return false
		}})
		w := newWorld(t, s)
		made := w.wallet()
		if made.ProviderID != "external_"+addressOf(s.keys[0]).String() || *made.Address != addressOf(s.keys[0]) {
			t.Errorf("wallet %+v", made)
		}
		p, err := w.pay()
		if err != nil || p.Signature == nil || p.Authorization.From != *made.Address {
			t.Fatalf("%q: payment %+v, %v", only, p, err)
		}
		if err := w.signer.Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A signer that knows the name of Web3Signer only is asked by that from then on.
func TestTheNameOfWeb3SignerIsRemembered(t *testing.T) {
	t.Parallel()
	s := newStub(t, 1)
	s.only = "eth_signTypedData"
	w := newWorld(t, s)
	m := messageOf(w.wallet())
	for _, want := range []int64{2, 1, 1} {
		before := s.calls.Load()
		if _, err := w.signer.Sign(t.Context(), m.wallet, m.Message); err != nil {
			t.Fatal(err)
		}
		if calls := s.calls.Load() - before; calls != want {
			t.Errorf("%d calls, want %d", calls, want)
		}
	}
}

type walletMessage struct {
	pay.Message
	wallet pay.Wallet
}

func messageOf(w pay.Wallet) walletMessage {
	base := x402.Networks()[0]
	a := x402.Authorization{From: *w.Address, To: x402.EVMAddress([20]byte{1}), Value: money.New(1), ValidBefore: 1_900_000_000, Nonce: x402.Nonce{7}}
	return walletMessage{pay.MessageOf(a, base.Assets[0], base.ChainID), w}
}

// Each account is lent once, whatever comes at once, and also after its wallet was deleted.
func TestAccountsAreLentOnce(t *testing.T) {
	t.Parallel()
	const accounts = 8
	w := newWorld(t, newStub(t, accounts))
	var mu sync.Mutex
	var lent []x402.Address
	var none int
	var all sync.WaitGroup
	for range 3 * accounts {
		all.Go(func() {
			made, err := w.books.CreateWallet(context.Background(), w.key, "")
			mu.Lock()
			defer mu.Unlock()
			refused, _ := errors.AsType[*pay.SignerError](err)
			switch {
			case err == nil:
				lent = append(lent, *made.Address)
			case refused != nil && refused.Fault == pay.SignerNoAccount:
				none++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.SortFunc(lent, func(a, b x402.Address) int { return slices.Compare(a.Bytes(), b.Bytes()) })
	if len(lent) != accounts || len(slices.Compact(lent)) != accounts || none != 2*accounts {
		t.Fatalf("%d accounts lent, %d times none was free", len(lent), none)
	}
	list, err := w.books.ListWallets(t.Context(), w.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.books.DeleteWallet(t.Context(), w.key, list[0].ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.books.CreateWallet(t.Context(), w.key, "")
	if err == nil || !strings.Contains(err.Error(), "no free account: each of its 8 is lent") || pay.Code(err) != pay.CodeSigner {
		t.Errorf("error %v", err)
	}
}

func TestFaultsOfSigners(t *testing.T) {
	t.Parallel()
	status := func(code int) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
			http.Error(w, "the token is "+bearer, code)
			return true
		}
	}
	body := func(text string) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
			_, _ = w.Write([]byte(text))
			return true
		}
	}
	for name, c := range map[string]struct {
		before   func(http.ResponseWriter, *http.Request, int64) bool
		spoil    func(string) any
		chain    string
		fault    pay.SignerFault
		unsigned bool
		text     string
		calls    int64
	}{
		"hangs": {
			before: func(_ http.ResponseWriter, r *http.Request, _ int64) bool {
				_, _ = io.Copy(io.Discard, r.Body) // only then net/http notices a client that leaves
				<-r.Context().Done()
				return true
			},
			fault: pay.SignerSlow, text: "gave no answer in 2s",
		},
		"breaks off": {
			before: func(http.ResponseWriter, *http.Request, int64) bool { panic(http.ErrAbortHandler) },
			fault:  pay.SignerUnreachable, text: "cannot be reached",
		},
		"401":         {before: status(401), fault: pay.SignerDenied, unsigned: true, text: "401 Unauthorized", calls: 1},
		"403":         {before: status(403), fault: pay.SignerRefused, unsigned: true, text: "403 Forbidden", calls: 1},
		"429":         {before: status(429), fault: pay.SignerBusy, unsigned: true, text: "asks for fewer requests", calls: 3},
		"502":         {before: status(502), fault: pay.SignerFailing, text: "502 Bad Gateway", calls: 3},
		"no JSON-RPC": {before: body("<html>"), fault: pay.SignerUnreadable, text: "something else than JSON-RPC", calls: 1},
		"no result":   {before: body(`{"jsonrpc":"2.0","id":1}`), fault: pay.SignerUnreadable, text: "something else than JSON-RPC", calls: 1},
		"another id":  {before: body(`{"jsonrpc":"2.0","id":7,"result":"0x"}`), fault: pay.SignerUnreadable, text: "another call", calls: 1},
		"locked": {
			before: body(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"authentication needed: password or unlock\u0007 a-bearer-token"}}`),
			fault:  pay.SignerRefused, unsigned: true, text: "error -32000: authentication needed: password or unlock  [redacted]", calls: 1,
		},
		"64 bytes":        {spoil: func(s string) any { return s[:130] }, fault: pay.SignerUnreadable, text: "a signature has 65 bytes in 0x-hex, and this has 130 characters", calls: 1},
		"no text":         {spoil: func(string) any { return 7 }, fault: pay.SignerUnreadable, text: "something else than a signature", calls: 1},
		"high s":          {spoil: func(s string) any { return highS(s) }, fault: pay.SignerUnreadable, text: "r, s or v out of range", calls: 1},
		"another message": {spoil: func(s string) any { return s[:10] + "11" + s[12:] }, fault: pay.SignerUnreadable, text: "wrong signature", calls: 1},
		"another chain":   {chain: "1", fault: pay.SignerUnreadable, text: "for another chain or message", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, 1)
			w := newWorld(t, s)
			w.wallet()
			s.fail(faults{c.before, c.spoil, c.chain})
			calls := s.calls.Load()
			p, err := w.pay()
			signer, ok := errors.AsType[*pay.SignerError](err)
			if !ok || signer.Fault != c.fault || !strings.Contains(signer.Error(), c.text) || signer.Unsigned != c.unsigned {
				t.Fatalf("error %#v: %v", signer, err)
			}
			if p.State != pay.Void || p.Doubted == c.unsigned || pay.Code(err) != pay.CodeFailed {
				t.Errorf("payment %s, doubted %t", p.State, p.Doubted)
			}
			if got := s.calls.Load() - calls; c.calls != 0 && got != c.calls {
				t.Errorf("%d calls, want %d", got, c.calls)
			}
			if text := err.Error() + p.Reason; strings.Contains(text, bearer) {
				t.Errorf("the token is in %q", text)
			}
			s.fail(faults{})
			again, err := w.pay()
			if err != nil {
				t.Fatal(err)
			}
			if same := again.Authorization == p.Authorization; same == c.unsigned {
				t.Errorf("the repeat has the same authorization: %t", same)
			}
		})
	}
}

// highS turns a signature into the other one of the same key and message (EIP-2).
func highS(text string) string {
	raw := hexutil.MustDecode(text)
	s := new(big.Int).SetBytes(raw[32:64])
	s.Sub(crypto.S256().Params().N, s)
	s.FillBytes(raw[32:64])
	raw[64] = 27 + 28 - raw[64]
	return hexutil.Encode(raw)
}

// A signature with v of 0 or 1 is taken.
func TestSmallV(t *testing.T) {
	t.Parallel()
	s := newStub(t, 1)
	s.fail(faults{spoil: func(text string) any {
		raw := hexutil.MustDecode(text)
		raw[64] -= 27
		return hexutil.Encode(raw)
	}})
	w := newWorld(t, s)
	w.wallet()
	if p, err := w.pay(); err != nil || p.Signature[64] < 27 {
		t.Errorf("payment %+v, %v", p, err)
	}
}

// A sign-in is signed as a text, which the signer prefixes by itself; a signer that cannot says so.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newStub(t, 1)
	w := newWorld(t, s)
	wallet := w.wallet()
	now := time.Now()
	c, err := x402.DecodeHeader(fmt.Sprintf(`{"x402Version":2,"accepts":[],"extensions":{"sign-in-with-x":{"info":{"domain":"a.example",`+
		`"uri":"https://a.example/","version":"1","nonce":"nonce0001","issuedAt":%q},"supportedChains":[{"chainId":"eip155:8453","type":"eip191"}]}}}`,
		now.Format(time.RFC3339)))
	if err != nil {
		t.Fatal(err)
	}
	base, _ := x402.NetworkByWire("base")
	m, err := c.SignIn(&url.URL{Scheme: "https", Host: "a.example"}, base, *wallet.Address, now)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := w.signer.SignIn(t.Context(), wallet, m)
	if err != nil {
		t.Fatal(err)
	}
	if by, err := x402.Recover(m.Digest(), signature); err != nil || by != *wallet.Address {
		t.Errorf("signed by %s, %v", by, err)
	}
	other, err := c.SignIn(&url.URL{Scheme: "https", Host: "a.example"}, base, x402.EVMAddress([20]byte{1}), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.signer.SignIn(t.Context(), wallet, other); pay.Code(err) != pay.CodeSigner {
		t.Errorf("another wallet's: %v", err)
	}
	s.only = "eth_signTypedData"
	if _, err := w.signer.SignIn(t.Context(), wallet, m); pay.Code(err) != pay.CodeSigner || !strings.Contains(err.Error(), "personal_sign") {
		t.Errorf("a signer without personal_sign: %v", err)
	}
}

// A signer that fails for a moment is asked again, for the same signature.
func TestTriesAgain(t *testing.T) {
	t.Parallel()
	s := newStub(t, 1)
	w := newWorld(t, s)
	w.wallet()
	first := s.calls.Load() + 1
	s.fail(faults{before: func(w http.ResponseWriter, _ *http.Request, call int64) bool {
		switch call {
		case first:
			panic(http.ErrAbortHandler)
		case first + 1:
			http.Error(w, "", http.StatusServiceUnavailable)
			return true
		}
		return false
	}})
	if _, err := w.pay(); err != nil || len(s.signed) != 1 {
		t.Errorf("signed %q, %v", s.signed, err)
	}
}

// A signer that is not there has signed nothing.
func TestSignerThatIsDown(t *testing.T) {
	t.Parallel()
	s := newStub(t, 1)
	server := httptest.NewServer(s)
	down, err := external.New(external.Options{URL: server.URL, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	address := addressOf(s.keys[0])
	m := messageOf(pay.Wallet{Address: &address, ProviderID: "external_x"})
	_, err = down.Sign(t.Context(), m.wallet, m.Message)
	if signer, ok := errors.AsType[*pay.SignerError](err); !ok || signer.Fault != pay.SignerUnreachable || !signer.Unsigned {
		t.Errorf("error %#v", err)
	}
	if err := down.Probe(t.Context()); err == nil {
		t.Error("the probe is well")
	}
	if _, err := down.Create(t.Context(), "id", "base"); pay.Code(err) != pay.CodeSigner {
		t.Errorf("error %v", err)
	}
}

func TestWalletsOfOthersAreNotSigned(t *testing.T) {
	t.Parallel()
	s := newStub(t, 1)
	w := newWorld(t, s)
	made := w.wallet()
	local, bare := made, made
	local.ProviderID, bare.Address = "local_1", nil
	calls := s.calls.Load()
	m := messageOf(made)
	other := m.Message
	other.From = x402.EVMAddress([20]byte{9})
	for text, c := range map[string]struct {
		w pay.Wallet
		m pay.Message
	}{
		"one of local": {local, m.Message}, "no address": {bare, m.Message}, "the message is from": {made, other},
	} {
		if _, err := w.signer.Sign(t.Context(), c.w, c.m); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v", text, err)
		}
	}
	if got := s.calls.Load(); got != calls {
		t.Errorf("the signer was asked %d times", got-calls)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, key, text string }{
		{"", "", "PURSER_SIGNER_URL"},
		{"ftp://signer.example", "", "PURSER_SIGNER_URL"},
		{"https://signer.example", "a\nb", "PURSER_SIGNER_KEY"},
		{"https://user:password1@signer.example", "token", "only one can be sent"},
	} {
		_, err := external.New(external.Options{URL: c.url, Key: c.key})
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "password1") {
			t.Errorf("%s: error %v", c.url, err)
		}
	}
}
