package signer_test

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// shelf keeps secrets as a store does, and returns copies.
type shelf struct {
	secrets map[string][]byte
	given   [][]byte
}

func (s *shelf) WalletSecret(ctx context.Context, id string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	secret, ok := s.secrets[id]
	if !ok {
		return nil, pay.ErrWalletNotFound
	}
	secret = slices.Clone(secret)
	s.given = append(s.given, secret)
	return secret, nil
}

func newWallet(t testing.TB, s *shelf, p pay.Wallets) pay.Wallet {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	made, err := p.Create(t.Context(), id, "base")
	if err != nil {
		t.Fatal(err)
	}
	if s.secrets == nil {
		s.secrets = map[string][]byte{}
	}
	s.secrets[id] = made.Secret
	return pay.Wallet{ID: id, ProviderID: made.ProviderID, Network: "base", Address: made.Address}
}

func message(w pay.Wallet) pay.Message {
	network, _ := x402.NetworkByWire("base")
	a := x402.Authorization{
		To: x402.EVMAddress([20]byte{19: 1}), Value: money.New(10_000), ValidBefore: 1_900_000_000, Nonce: x402.Nonce{7},
	}
	if w.Address != nil {
		a.From = *w.Address
	}
	return pay.MessageOf(a, network.Assets[0], network.ChainID)
}

func TestLocalWallets(t *testing.T) {
	t.Parallel()
	var s shelf
	local := signer.NewLocal(&s)
	if local.Name() != "local" {
		t.Errorf("name %q", local.Name())
	}
	a, b := newWallet(t, &s, local), newWallet(t, &s, local)
	for _, w := range []pay.Wallet{a, b} {
		id, ok := strings.CutPrefix(w.ProviderID, "local_")
		if _, err := uuid.Parse(id); err != nil || !ok {
			t.Errorf("provider id %q", w.ProviderID)
		}
		if w.Address == nil || w.Address.IsZero() || len(s.secrets[w.ID]) != 32 {
			t.Errorf("address %v, %d bytes of secret", w.Address, len(s.secrets[w.ID]))
		}
	}
	if a.ProviderID == b.ProviderID || *a.Address == *b.Address {
		t.Error("two wallets are alike")
	}
}

func TestLocalSigns(t *testing.T) {
	t.Parallel()
	var s shelf
	local := signer.NewLocal(&s)
	w := newWallet(t, &s, local)
	m := message(w)
	for range 2 { // the kept secret must survive a signature
		signature, err := local.Sign(t.Context(), w, m)
		if err != nil {
			t.Fatal(err)
		}
		by, err := x402.Recover(m.Digest, signature)
		if err != nil || by != *w.Address {
			t.Errorf("recovered %s, %v; want %s", by, err, w.Address)
		}
	}
	for _, secret := range s.given {
		if !slices.Equal(secret, make([]byte, 32)) {
			t.Error("a fetched secret was not wiped")
		}
	}
}

func TestLocalSignsBytes(t *testing.T) {
	t.Parallel()
	var s shelf
	local := signer.NewLocal(&s)
	w, other := newWallet(t, &s, local), newWallet(t, &s, local)
	m := pay.Message{From: *w.Address, Bytes: []byte("a transaction")}
	signature, err := local.SignBytes(t.Context(), w, m)
	if err != nil {
		t.Fatal(err)
	}
	if by, err := x402.Recover([32]byte(x402.Keccak256(m.Bytes)), signature); err != nil || by != *w.Address {
		t.Errorf("recovered %s, %v; want %s", by, err, w.Address)
	}
	if _, err := local.SignBytes(t.Context(), other, m); err == nil {
		t.Error("another wallet signs it")
	}
	if _, err := local.SignBytes(t.Context(), w, pay.Message{From: *w.Address}); err == nil {
		t.Error("nothing is signed")
	}
}

func TestLocalSignsTransactions(t *testing.T) {
	t.Parallel()
	var s shelf
	local := signer.NewLocal(&s)
	w, other := newWallet(t, &s, local), newWallet(t, &s, local)
	call := treasury.Transaction{ChainID: 8453, From: *w.Address, To: x402.EVMAddress([20]byte{1}), Data: []byte{1}}
	signed, err := local.SignTransaction(t.Context(), w, call)
	var tx types.Transaction
	if err == nil {
		err = tx.UnmarshalBinary(signed.Raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
	if err != nil || x402.EVMAddress(from) != *w.Address || tx.Hash().Hex() != signed.Hash {
		t.Errorf("%s by %s, %v", signed.Hash, from, err)
	}
	if _, err := local.SignTransaction(t.Context(), other, call); err == nil {
		t.Error("another wallet signs it")
	}
}

// Each secret, address and message that belong together get the signature that the plain library
// makes: deterministic, with a low s, and recovered to the wallet.
func TestLocalSignsAsTheLibrary(t *testing.T) {
	t.Parallel()
	s := shelf{secrets: map[string][]byte{}}
	local := signer.NewLocal(&s)
	halfOrder := new(big.Int).Rsh(crypto.S256().Params().N, 1)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) []byte { return rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, label) }
		isKey := func(secret []byte) bool { _, err := crypto.ToECDSA(secret); return err == nil }
		secret := rapid.SliceOfN(rapid.Byte(), 32, 32).Filter(isKey).Draw(t, "secret")
		key, err := crypto.ToECDSA(secret)
		if err != nil {
			t.Fatal(err)
		}
		address := x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))
		w := pay.Wallet{ID: "drawn", Address: &address}
		s.secrets[w.ID] = secret
		m := message(w)
		m.Digest = [32]byte(draw("digest"))
		digest := m.Digest
		signature, err := local.Sign(context.Background(), w, m)
		if err != nil {
			t.Fatal(err)
		}
		if by, err := x402.Recover(digest, signature); err != nil || by != address {
			t.Fatalf("recovered %s, %v; want %s", by, err, address)
		}
		if new(big.Int).SetBytes(signature[32:64]).Cmp(halfOrder) > 0 {
			t.Fatalf("high s: %v", signature)
		}
		if want, err := x402test.Sign(digest, key); err != nil || signature != want {
			t.Fatalf("signature %v, want %v, %v", signature, want, err)
		}
	})
}

// A wallet that has signed with its key does not vouch for another key.
func TestLocalRefusesAnExchangedKey(t *testing.T) {
	t.Parallel()
	var s shelf
	local := signer.NewLocal(&s)
	w, other := newWallet(t, &s, local), newWallet(t, &s, local)
	for _, used := range []pay.Wallet{w, other} {
		if _, err := local.Sign(t.Context(), used, message(used)); err != nil {
			t.Fatal(err)
		}
	}
	s.secrets[w.ID] = s.secrets[other.ID]
	if _, err := local.Sign(t.Context(), w, message(w)); err == nil || !strings.Contains(err.Error(), "another address") {
		t.Errorf("error %v", err)
	}
}

func TestLocalRefuses(t *testing.T) {
	t.Parallel()
	var s shelf
	local := signer.NewLocal(&s)
	w, other := newWallet(t, &s, local), newWallet(t, &s, local)
	wrongKey, short, zero, unknown, bare := w, w, w, w, w
	wrongKey.ID, short.ID, zero.ID, unknown.ID = other.ID, "short", "zero", "unknown"
	bare.Address = nil
	s.secrets["short"], s.secrets["zero"] = []byte{1, 2, 3}, make([]byte, 32)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		w    pay.Wallet
		m    pay.Message
		is   error
		text string
	}{
		{name: "another's authorization", w: w, m: message(other), text: "from " + other.Address.String()},
		{name: "another's key", w: wrongKey, m: message(w), text: "another address"},
		{name: "short key", w: short, m: message(w), text: "no key"},
		{name: "zero key", w: zero, m: message(w), text: "no key"},
		{name: "unknown", w: unknown, m: message(w), is: pay.ErrWalletNotFound},
		{name: "no address", w: bare, m: message(w), is: pay.ErrNoAddress},
		{name: "canceled", ctx: canceled, w: w, m: message(w), is: context.Canceled},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		signature, err := local.Sign(ctx, c.w, c.m)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if signature != (x402.Signature{}) {
			t.Errorf("%s: a signature came with the error", c.name)
		}
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	none := signer.None{}
	var s shelf
	w := newWallet(t, &s, none)
	if id, ok := strings.CutPrefix(w.ProviderID, "purser_"); !ok || uuid.Validate(id) != nil {
		t.Errorf("provider id %q", w.ProviderID)
	}
	if none.Name() != "none" || w.Address != nil || s.secrets[w.ID] != nil {
		t.Errorf("name %q, address %v, secret %v", none.Name(), w.Address, s.secrets[w.ID])
	}
	if _, err := none.Sign(t.Context(), w, message(w)); !errors.Is(err, pay.ErrNoAddress) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkLocalSign measures Sign beside the checks that it once made with every signature: it
// derived the wallet's address from the secret, and the payer recovered the signer.
func BenchmarkLocalSign(b *testing.B) {
	s := shelf{}
	local := signer.NewLocal(&s)
	w := newWallet(b, &s, local)
	m := message(w)
	var checking, signing time.Duration
	for b.Loop() {
		s.given = s.given[:0]
		began := time.Now()
		checked(b, w, m, s.secrets[w.ID])
		between := time.Now()
		if _, err := local.Sign(b.Context(), w, m); err != nil {
			b.Fatal(err)
		}
		checking += between.Sub(began)
		signing += time.Since(between)
	}
	b.ReportMetric(float64(checking.Nanoseconds())/float64(b.N), "checked-ns/op")
	b.ReportMetric(float64(signing.Nanoseconds())/float64(b.N), "sign-ns/op")
	b.ReportMetric(float64(signing)/float64(checking), "sign/checked")
}

// checked signs and checks everything.
func checked(b *testing.B, w pay.Wallet, m pay.Message, secret []byte) {
	b.Helper()
	key, err := x402.ParseKey(secret)
	if err != nil || key.Address() != *w.Address {
		b.Fatal("not the wallet's key")
	}
	signature, err := key.Sign(m.Digest)
	if err != nil {
		b.Fatal(err)
	}
	if by, err := x402.Recover(m.Digest, signature); err != nil || by != *w.Address {
		b.Fatalf("recovered %s, %v", by, err)
	}
}
