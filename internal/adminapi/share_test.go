package adminapi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
)

// keyed makes a key without a wallet.
func keyed(w *world) (pay.Key, string) {
	w.t.Helper()
	k, secret, err := w.Books.CreateKey(w.t.Context(), books.KeyRequest{Label: "bare"})
	w.must(err)
	return k, secret
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A wallet pays for several keys, until it is taken back.
func TestShare(t *testing.T) {
	w := newWorld(t)
	owner := w.key("owner")
	bare, _ := keyed(w)
	mine := must(w.Books.ListWallets(t.Context(), owner))[0]
	if got := w.rule(bare, 10_000, "https://api.example.com/x"); !strings.Contains(got, "no wallet") {
		t.Errorf("%q", got)
	}
	share := "wallets share " + mine.ID
	w.run(share+" --with bare", bare.ID+" bare", "shared with 1 key")
	w.run(share, bare.ID)
	if got := ran[adminapi.SharedWallet](w, share); len(got.Keys) != 1 || got.Keys[0].ID != bare.ID || got.Wallet.Shared != 1 {
		t.Errorf("%+v", got)
	}
	w.run("wallets --key bare", mine.ID, "1 key")
	id := w.buys(bare, 10_000, "https://api.example.com/x")
	if p := must(w.store.Payment(t.Context(), id)); p.WalletID != mine.ID || p.KeyID != bare.ID {
		t.Errorf("%+v", p)
	}
	w.fails(map[string]string{
		share + " --with owner":                        "own",
		share + " --with nobody":                       "nobody",
		share + " --with pk_secret":                    "API key itself",
		"wallets unshare " + mine.ID:                   "from which keys?",
		"wallets unshare " + mine.ID + " --with owner": "keys pause",
		"wallets share 0199ffff --with bare":           "no wallet",
	})
	open := w.leaves(bare, 0)[0]
	w.run("wallets unshare "+mine.ID+" --with bare", "!"+bare.ID)
	if got := w.rule(bare, 10_000, "https://api.example.com/y"); !strings.Contains(got, "no wallet") {
		t.Errorf("%q", got)
	}
	// An open payment stays bound to its wallet, and a repeat is served.
	a, err := w.pays(bare, pay.SettleSeller, "task-0", 10_000, "https://api.example.com/x?token=t0ken")
	if err != nil || a.Payment().ID != open || a.Payment().WalletID != mine.ID {
		t.Errorf("%v", err)
	}
	w.fails(map[string]string{"wallets unshare " + mine.ID + " --with bare": "wallet not found"})
	w.run("audit", "wallet.share", "wallet.unshare")
	w.run("keys revoke bare --yes")
	w.fails(map[string]string{share + " --with bare": "revoked"})
}

// Keys of the operator draw from one wallet unless something else is said.
func TestDeploymentWallet(t *testing.T) {
	w := newWorld(t)
	first := ran[adminapi.CreatedKey](w, "keys create --label first")
	second := ran[adminapi.CreatedKey](w, "keys create --label second")
	own := ran[adminapi.CreatedKey](w, "keys create --label own --wallet new")
	lent := ran[adminapi.CreatedKey](w, "keys create --label lent --wallet "+*own.Address)
	_, text := w.send("POST", "/exec", "application/json", "{}")
	exec := decode[adminapi.Exec](w, text)
	configured := must(w.Keys.Ensure(t.Context(), "key (PURSER_KEY)", "pk_configured", "deployment"))
	if first.Lent || !second.Lent || second.Wallet != first.Wallet || own.Lent || own.Wallet == first.Wallet ||
		!lent.Lent || lent.Wallet != own.Wallet || *exec.Address != *first.Address {
		t.Errorf("%+v\n%+v\n%+v\n%+v\n%+v", first, second, own, lent, exec)
	}
	if got := must(w.Books.ListWallets(t.Context(), configured)); len(got) != 1 || got[0].ID != first.Wallet {
		t.Errorf("%+v", got)
	}
	w.run("wallets", "3 keys, deployment's", "1 key")
	w.run("keys create --label again", "shared wallet", *first.Address)
	w.fails(map[string]string{
		"keys create --wallet 0199ffff":                               "no wallet",
		"keys create --network base-sepolia --wallet " + first.Wallet: "the wallet " + first.Wallet + " is on base",
	})
	// It is deleted: the next key gets another one, and others keep what they have.
	w.run("wallets delete " + first.Wallet + " --yes")
	next := ran[adminapi.CreatedKey](w, "keys create --label next")
	if next.Lent || next.Wallet == first.Wallet || next.Wallet == own.Wallet {
		t.Errorf("%+v", next)
	}
	w.run("wallets", "deployment's")
}

// Anyone may label a key "exec" where registration is open: lists tell the operator's wallets from others'.
func TestWhoseAWalletIs(t *testing.T) {
	w := newWorld(t)
	ours := ran[adminapi.CreatedKey](w, "keys create --label ours")
	stranger, _, err := w.Books.CreateKey(t.Context(), books.KeyRequest{Label: "exec"})
	w.must(err)
	theirs := must(w.Books.CreateWallet(t.Context(), stranger, "base"))
	_, text := w.send("GET", "/wallets", "", "")
	got := map[string]bool{}
	for _, one := range decode[adminapi.Wallets](w, text).Wallets {
		got[one.ID] = one.Operator
	}
	if len(got) != 2 || !got[ours.Wallet] || got[theirs.ID] {
		t.Errorf("%v of %s and %s", got, ours.Wallet, theirs.ID)
	}
}

// Without a word, no secret is replaced.
func TestReissueAsks(t *testing.T) {
	w := newWorld(t)
	k, old := keyed(w)
	reissue := func(answer string, flags ...string) clitest.Outcome {
		line := clitest.Line{Environ: []string{"PURSER_ADMIN=unix/" + w.socket}, Stdin: strings.NewReader(answer)}
		return line.Run(t, append([]string{"keys", "reissue", "bare"}, flags...)...)
	}
	for _, answer := range []string{"", "no\n", "y\n"} {
		if o := reissue(answer); o.Status == 0 || !strings.Contains(o.Stderr, "neither pay nor read") || !strings.Contains(o.Stderr, "--yes answers") || strings.Contains(o.Stdout, "pk_") {
			t.Errorf("%q: %+v", answer, o)
		}
	}
	if found := must(w.Payer.Resolve(t.Context(), old)); found.ID != k.ID {
		t.Errorf("%+v", found)
	}
	if o := reissue("yes\n", "--overlap", "24h"); o.Status != 0 || !strings.Contains(o.Stderr, "works for 24h yet") || !strings.Contains(o.Stdout, "pk_") {
		t.Errorf("%+v", o)
	}
}

// While an overlap lasts, both secrets work, and everything that shows the key says until when.
func TestReissueWithAnOverlap(t *testing.T) {
	w := newWorld(t)
	k, old := keyed(w)
	w.configured = []adminapi.ConfiguredKey{{Setting: "key (PURSER_KEY)", Secret: old}}
	finds := func(secret string, want bool) {
		t.Helper()
		found, err := w.Payer.Resolve(t.Context(), secret)
		if want && (err != nil || found.ID != k.ID) || !want && !errors.Is(err, pay.ErrKeyNotFound) {
			t.Errorf("%+v, %v", found, err)
		}
	}
	got := ran[adminapi.ReissuedKey](w, "keys reissue bare --overlap 1d --yes")
	if left := got.EarlierUntil.Sub(w.now()); left < 23*time.Hour || left > 24*time.Hour || strings.Join(got.Configured, "") != "key (PURSER_KEY)" {
		t.Errorf("%+v", got)
	}
	finds(old, true)
	finds(got.Key, true)
	until := got.EarlierUntil.UTC().Format("2006-01-02T15:04")
	w.run("keys show bare", "pays; the old secret works until "+until, "reissued")
	w.run("limits bare", "the old secret works until "+until)
	w.run("keys", "pays, 2 secrets")
	if shown := ran[adminapi.Key](w, "keys show bare"); !shown.EarlierUntil.Equal(got.EarlierUntil) || shown.Reissued.IsZero() {
		t.Errorf("%+v", shown)
	}
	// A start with the earlier secret pays, and says that it will not do so for long.
	if now, err := w.Keys.Ensure(t.Context(), "key (PURSER_KEY)", old, "deployment"); err != nil || now.ID != k.ID || !strings.Contains(w.log.String(), "it pays for a while yet") {
		t.Errorf("%+v, %v", now, err)
	}
	w.behind.Add(-int64(24 * time.Hour))
	finds(old, false)
	finds(got.Key, true)
	w.run("keys show bare", "!old secret")
	w.run("keys", "!secrets")

	second := ran[adminapi.ReissuedKey](w, "keys reissue bare --overlap 90m --yes")
	finds(got.Key, true)
	w.run("keys end-overlap bare", "pays", "!old secret")
	finds(got.Key, false)
	finds(second.Key, true)
	w.run("audit", "key.end-overlap")
	w.fails(map[string]string{"keys reissue bare --overlap 1s --yes": "one minute"})
	third := ran[adminapi.ReissuedKey](w, "keys reissue bare --overlap 90m --yes")
	w.run("keys revoke bare --yes")
	finds(second.Key, false)
	finds(third.Key, false)
	w.fails(map[string]string{
		"keys reissue bare --overlap 31d --yes": "30 days", "keys reissue bare --overlap soon --yes": "--overlap",
		"keys end-overlap bare": "revoked",
	})
}

// The secret of a key is replaced at once, and the operator hears where else it has to be changed.
func TestReissue(t *testing.T) {
	w := newWorld(t)
	k, old := keyed(w)
	w.configured = []adminapi.ConfiguredKey{{Setting: "key (PURSER_KEY)", Secret: old}}
	got := ran[adminapi.ReissuedKey](w, "keys reissue bare --yes")
	if got.ID != k.ID || got.Key == old || strings.Join(got.Configured, "") != "key (PURSER_KEY)" {
		t.Errorf("%+v", got)
	}
	if _, err := w.Payer.Resolve(t.Context(), old); err == nil {
		t.Error("the old secret still finds the key")
	}
	if found := must(w.Payer.Resolve(t.Context(), got.Key)); found.ID != k.ID {
		t.Errorf("%+v", found)
	}
	w.run("keys reissue bare --yes", "pk_", "not shown again", "!PURSER_KEY")
	// purser starts all the same, and says so.
	if now, err := w.Keys.Ensure(t.Context(), "key (PURSER_KEY)", old, "deployment"); err != nil || now.ID != "" || !strings.Contains(w.log.String(), "PURSER_KEY") {
		t.Errorf("%+v, %v", now, err)
	}
	w.run("audit", "key.reissue")
	w.run("keys revoke bare --yes")
	w.fails(map[string]string{"keys reissue bare --yes": "revoked", "keys reissue pk_123456789": "API key itself"})
	if strings.Contains(w.log.String(), got.Key) || strings.Contains(w.log.String(), old) {
		t.Error("a secret is in the log")
	}
}
