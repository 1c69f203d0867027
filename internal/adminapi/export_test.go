package adminapi_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	geth "github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

const passphrase = "correct horse battery staple"

// written writes a file that only its owner may read.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// keystoreOf makes a keystore as go-ethereum does, with its address. It is quick to open.
func keystoreOf(t *testing.T) (path string, address x402.Address) {
	t.Helper()
	private, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	address = x402.EVMAddress(crypto.PubkeyToAddress(private.PublicKey))
	text, err := geth.EncryptKey(&geth.Key{Id: uuid.New(), Address: crypto.PubkeyToAddress(private.PublicKey), PrivateKey: private}, passphrase, 1<<4, 1)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, "key.json", string(text)), address
}

// A key goes out as a file that go-ethereum opens, and another purser pays with it.
func TestExportImport(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	mine := must(w.Books.ListWallets(t.Context(), k))[0]
	phrase := written(t, "phrase", passphrase+"\n")
	out := filepath.Join(t.TempDir(), "wallet.json")
	export := "wallets export " + mine.Address.String() + " --passphrase-file " + phrase
	told := w.run(export+" --out "+out, mine.ID, mine.Address.String())
	text, err := os.ReadFile(out)
	w.must(err)
	opened, err := geth.DecryptKey(text, passphrase)
	if err != nil || x402.EVMAddress(opened.Address) != *mine.Address {
		t.Fatalf("%v: %s", err, text)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	secret := hex.EncodeToString(crypto.FromECDSA(opened.PrivateKey))
	for what, text := range map[string]string{"log": w.log.String(), "answer": told, "audit": w.run("audit --json")} {
		if strings.Contains(text, passphrase) || strings.Contains(strings.ToLower(text), secret[:32]) {
			t.Errorf("a secret is in the %s", what)
		}
	}
	w.run("audit", "wallet.export")
	w.fails(map[string]string{
		export + " --out " + out:    "not written over",
		export + " --json":          "--out",
		"wallets export " + mine.ID: "--passphrase-file names a file",
		"wallets export " + mine.ID + " --passphrase-file " + written(t, "short", "secret\n"):          "too short",
		"wallets export " + mine.ID + " --passphrase-file " + written(t, "lines", "one line\nanother"): "more than one line",
		"wallets export " + mine.ID + " --passphrase-file " + filepath.Join(t.TempDir(), "none"):       "no such file",
		"wallets export 0199ffff --passphrase-file " + phrase:                                          "no wallet has the id",
	})
	other := newWorldIn(t)
	owner, _ := keyed(other)
	got := ran[adminapi.Wallet](other, "wallets import "+out+" --key bare --passphrase-file "+phrase)
	if got.KeyID != owner.ID || *got.Address != mine.Address.String() {
		t.Errorf("%+v", got)
	}
	other.buys(owner, 10_000, "https://api.example.com/x")
	other.run("audit", "wallet.import")
}

// Whatever is wrong with an import is said, and nothing is made.
func TestImportRefuses(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	phrase := written(t, "phrase", passphrase)
	path, address := keystoreOf(t)
	fresh, _ := keystoreOf(t)
	line := "wallets import " + path + " --key research --passphrase-file " + phrase
	made := ran[adminapi.Wallet](w, line)
	if *made.Address != address.String() {
		t.Errorf("%+v", made)
	}
	imports := "wallets import " + fresh
	w.fails(map[string]string{
		line:                                     "in purser already: " + address.String() + " is wallet " + made.ID,
		imports + " --passphrase-file " + phrase: "whose wallet?",
		imports + " --key research --network solana --passphrase-file " + phrase:        "solana",
		imports + " --key research --network base-sepolia --passphrase-file " + phrase:  "not one that this purser pays on",
		imports + " --key nobody --passphrase-file " + phrase:                           "nobody",
		imports + " --key research --passphrase-file " + written(t, "wrong", "another"): "wrong passphrase",
		imports + " --key research": "--passphrase-file names a file",
		"wallets import " + phrase + " --key research --passphrase-file " + phrase:                             "not a keystore",
		"wallets import " + filepath.Join(t.TempDir(), "none") + " --key research --passphrase-file " + phrase: "no such file",
	})
	w.must(w.Books.DeleteWallet(t.Context(), k, made.ID))
	w.fails(map[string]string{line: "purser wallets restore " + made.ID})
	if list := must(w.Books.AllWallets(t.Context(), "", 10)); len(list) != 2 {
		t.Errorf("%+v", list)
	}
}

// A provider that keeps its keys elsewhere gives none away, and takes none.
func TestExportOfAnotherProvider(t *testing.T) {
	w := newWorld(t, func(o *pay.Options) { o.Wallets = signer.None{} })
	w.key("research")
	id := ran[adminapi.Wallets](w, "wallets").Wallets[0].ID
	phrase := written(t, "phrase", passphrase)
	path, _ := keystoreOf(t)
	w.fails(map[string]string{
		"wallets export " + id + " --passphrase-file " + phrase:                  "its provider keeps it",
		"wallets import " + path + " --key research --passphrase-file " + phrase: "PURSER_WALLETS",
	})
	w.run("audit", "!wallet.export")
}

// The endpoint refuses a request that does not fit, and says why.
func TestExportAndImportRefuse(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	id := must(w.Books.ListWallets(t.Context(), k))[0].ID
	_, offer := w.send("GET", "/wallets/import", "", "")
	var public struct{ Public []byte }
	w.must(json.Unmarshal([]byte(offer), &public))
	if len(public.Public) != 32 {
		t.Errorf("%s", offer)
	}
	w.answers(
		request{"POST", "/wallets/" + id + "/export", `{}`, 400, "public"},
		request{"POST", "/wallets/" + id + "/export", `{"public":"AAAA"}`, 400, "public"},
		request{"POST", "/wallets/nothing-like-it/export", `{"public":"AAAA"}`, 404, "no wallet"},
		request{"POST", "/wallets/import", `{"key":"research","sealed":"AAAA"}`, 409, "cannot be opened"},
		request{"POST", "/wallets/import", `{"key":"research","secret":"AAAA"}`, 400, "secret"},
	)
}

// A deleted wallet is listed with what it holds, and comes back.
func TestRestore(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	other := w.key("other")
	mine := must(w.Books.ListWallets(t.Context(), k))[0]
	w.fails(map[string]string{
		"wallets restore " + mine.ID: "not deleted",
		"wallets restore 0199ffff":   "no wallet",
		"wallets delete " + mine.ID:  "--yes",
	})
	w.run("wallets delete "+mine.ID+" --yes", "deleted 20")
	w.fails(map[string]string{
		"wallets delete " + mine.ID + " --yes":             "deleted already",
		"wallets share " + mine.ID + " --with " + other.ID: "wallets restore",
	})
	if refused := w.rule(k, 10_000, "https://api.example.com/x"); !strings.Contains(refused, "no wallet") {
		t.Errorf("%q", refused)
	}
	w.run("wallets", "!"+mine.ID)
	for _, line := range []string{"wallets --deleted", "wallets --deleted --key research"} {
		if got := ran[adminapi.Wallets](w, line).Wallets; len(got) != 1 || got[0].ID != mine.ID || got[0].Deleted.IsZero() {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := ran[adminapi.Wallets](w, "wallets --deleted --key other").Wallets; len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := ran[adminapi.Wallet](w, "wallets restore "+mine.ID[:35]); got.ID != mine.ID || !got.Deleted.IsZero() {
		t.Errorf("%+v", got)
	}
	w.buys(k, 10_000, "https://api.example.com/x")
	w.run("audit", "wallet.delete", "wallet.restore")
}
