package wallets

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

const passphrase = "correct horse battery staple"

// A key is lost, and its wallet is not.
func TestLostKey(t *testing.T) {
	w := newWorld(t)
	lost := ran[adminapi.CreatedKey](w, "keys", "create", "--label", "research")
	w.fund(*lost.Address, 2*price)
	w.buys(lost.Key)
	found := ran[adminapi.ReissuedKey](w, "keys", "reissue", "research")
	a, err := process.Ask(t.Context(), w.client(lost.Key), http.MethodGet, w.weather(), "")
	if err != nil || a.Status != http.StatusProxyAuthRequired {
		t.Errorf("with the old secret: %v, %+v", err, a)
	}
	w.buys(found.Key)
	if have := w.balance(*lost.Address); have != "0" {
		t.Errorf("%s are left", have)
	}
}

// An agent deletes its wallet, and the operator brings it back. Agents of the operator's own delete none.
func TestDeletedWallet(t *testing.T) {
	w := newWorld(t)
	var key struct{ Key string }
	a, err := process.Ask(t.Context(), http.DefaultClient, http.MethodPost, w.URL("/api-keys"), "{}")
	if err != nil || a.Decode(http.StatusCreated, &key) != nil {
		t.Fatalf("%v, %+v", err, a)
	}
	var mine struct{ ID, Address string }
	a, err = process.Ask(t.Context(), http.DefaultClient, http.MethodPost, w.URL("/wallets"), "{}", "X-Api-Key", key.Key)
	if err != nil || a.Decode(http.StatusCreated, &mine) != nil {
		t.Fatalf("%v, %+v", err, a)
	}
	w.fund(mine.Address, price)
	a, err = process.Ask(t.Context(), http.DefaultClient, http.MethodDelete, w.URL("/wallets/"+mine.ID), "", "X-Api-Key", key.Key)
	if err != nil || a.Status != http.StatusNoContent {
		t.Fatalf("%v, %+v", err, a)
	}
	if out := w.run("wallets", "--deleted", "--admin", w.Admin()); !strings.Contains(out, mine.ID) || !strings.Contains(out, "0.01") {
		t.Errorf("%s", out)
	}
	w.run("wallets", "restore", mine.Address, "--admin", w.Admin())
	w.buys(key.Key)

	made := ran[adminapi.CreatedKey](w, "keys", "create")
	a, err = process.Ask(t.Context(), http.DefaultClient, http.MethodDelete, w.URL("/wallets/"+made.Wallet), "", "X-Api-Key", made.Key)
	if err != nil || a.Status != http.StatusForbidden || !strings.Contains(a.Body, "Not allowed for this key") {
		t.Errorf("%v, %+v", err, a)
	}
}

// A machine is lost. A backup and the master key, in an empty folder, are the exec key, its wallet and its
// money.
func TestAnotherMachine(t *testing.T) {
	w := newWorld(t)
	var first adminapi.Wallets
	w.run("exec", "--admin", w.Admin(), "--", "true")
	if first = ran[adminapi.Wallets](w, "wallets"); len(first.Wallets) != 1 {
		t.Fatalf("%+v", first)
	}
	address := *first.Wallets[0].Address
	w.fund(address, price)
	backup := filepath.Join(t.TempDir(), "books.db")
	w.run("backup", backup, "--admin", w.Admin())
	w.Kill()

	other := &world{T: t, money: w.money}
	data := filepath.Join(t.TempDir(), "data")
	other.Purser = process.NewPurser(t, w.Binary, data, "PURSER_RPC_URL="+w.money.RPCURL())
	for from, to := range map[string]string{backup: "purser.db", filepath.Join(w.Data, "master.key"): "master.key"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(data, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(data, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other.Start(t)
	phrase, out := filepath.Join(t.TempDir(), "phrase"), filepath.Join(t.TempDir(), "wallet.json")
	if err := os.WriteFile(phrase, []byte(passphrase), 0o600); err != nil {
		t.Fatal(err)
	}
	other.run("wallets", "export", address, "--passphrase-file", phrase, "--out", out, "--admin", other.Admin())
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := keystore.DecryptKey(text, passphrase); err != nil || x402.EVMAddress(key.Address).String() != address {
		t.Errorf("%v: %s", err, text)
	}
	other.run("exec", "--admin", other.Admin(), "--", "true")
	if have := ran[adminapi.Keys](other, "keys").Keys; len(have) != 1 || have[0].ID != first.Wallets[0].KeyID {
		t.Errorf("the exec key was %s, and now there are %+v", first.Wallets[0].KeyID, have)
	}

	// The restored one pays in seven minutes at the earliest. A purser that has the keystore pays now.
	third := &world{T: t, money: w.money}
	third.Purser = process.NewPurser(t, w.Binary, filepath.Join(t.TempDir(), "data"), "PURSER_RPC_URL="+w.money.RPCURL())
	third.Start(t)
	made := ran[adminapi.CreatedKey](third, "keys", "create", "--label", "new")
	imported := ran[adminapi.Wallet](third, "wallets", "import", out, "--key", "new", "--passphrase-file", phrase)
	third.run("wallets", "delete", made.Wallet, "--yes", "--admin", third.Admin()) // the older one of the key would pay
	if *imported.Address != address {
		t.Errorf("%+v", imported)
	}
	third.buys(made.Key)
	if have := w.balance(address); have != "0" {
		t.Errorf("%s are left", have)
	}
}
