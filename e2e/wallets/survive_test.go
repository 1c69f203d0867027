package wallets

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

const passphrase = "correct horse battery staple"

// A key is lost, and its wallet is not.
func TestLostKey(t *testing.T) {
	w := newWorld(t)
	lost := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", "research")
	w.Fund(*lost.Address, 2*price)
	w.buys(lost.Key)
	found := sandboxed.Ran[adminapi.ReissuedKey](w.World, "keys", "reissue", "research", "--yes")
	a, err := process.Ask(t.Context(), w.Client(lost.Key), http.MethodGet, w.weather(), "")
	if err != nil || a.Status != http.StatusProxyAuthRequired {
		t.Errorf("with the old secret: %v, %+v", err, a)
	}
	w.buys(found.Key)
	if have := w.Holds(*lost.Address).String(); have != "0" {
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
	w.Fund(mine.Address, price)
	a, err = process.Ask(t.Context(), http.DefaultClient, http.MethodDelete, w.URL("/wallets/"+mine.ID), "", "X-Api-Key", key.Key)
	if err != nil || a.Status != http.StatusNoContent {
		t.Fatalf("%v, %+v", err, a)
	}
	if out := w.Must(w.T, "wallets", "--deleted"); !strings.Contains(out, mine.ID) || !strings.Contains(out, "0.01") {
		t.Errorf("%s", out)
	}
	w.Must(w.T, "wallets", "restore", mine.Address)
	w.buys(key.Key)

	made := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create")
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
	w.Must(w.T, "exec", "--", "true")
	if first = sandboxed.Ran[adminapi.Wallets](w.World, "wallets"); len(first.Wallets) != 1 {
		t.Fatalf("%+v", first)
	}
	address := *first.Wallets[0].Address
	w.Fund(address, price)
	backup := filepath.Join(t.TempDir(), "books.db")
	w.Must(w.T, "backup", backup)
	w.Kill()

	other := &world{&sandboxed.World{T: t, Money: w.Money}}
	data := filepath.Join(t.TempDir(), "data")
	other.Purser = process.NewPurser(t, w.Binary, data, "PURSER_RPC_URL="+w.Money.RPCURL())
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
	other.Must(other.T, "wallets", "export", address, "--passphrase-file", phrase, "--out", out)
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := keystore.DecryptKey(text, passphrase); err != nil || x402.EVMAddress(key.Address).String() != address {
		t.Errorf("%v: %s", err, text)
	}
	other.Must(other.T, "exec", "--", "true")
	if have := sandboxed.Ran[adminapi.Keys](other.World, "keys").Keys; len(have) != 1 || have[0].ID != first.Wallets[0].KeyID {
		t.Errorf("the exec key was %s, and now there are %+v", first.Wallets[0].KeyID, have)
	}

	// The restored one pays in seven minutes at the earliest. A purser that has the keystore pays now.
	third := &world{sandboxed.On(t, w.Money, process.Plain)}
	made := sandboxed.Ran[adminapi.CreatedKey](third.World, "keys", "create", "--label", "new")
	imported := sandboxed.Ran[adminapi.Wallet](third.World, "wallets", "import", out, "--key", "new", "--passphrase-file", phrase)
	third.Must(third.T, "wallets", "delete", made.Wallet, "--yes") // the older one of the key would pay
	if *imported.Address != address {
		t.Errorf("%+v", imported)
	}
	third.buys(made.Key)
	if have := w.Holds(address).String(); have != "0" {
		t.Errorf("%s are left", have)
	}
}
