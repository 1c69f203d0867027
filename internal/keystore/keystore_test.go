package keystore

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	geth "github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
)

const passphrase = "correct horse battery staple"

var secret = bytes.Repeat([]byte{0x5e}, 32)

// go-ethereum reads what Encrypt writes, and Decrypt reads what go-ethereum writes.
func TestExchange(t *testing.T) {
	t.Parallel()
	text, err := encrypt(secret, passphrase, 1<<12)
	if err != nil {
		t.Fatal(err)
	}
	key, err := geth.DecryptKey(text, passphrase)
	if err != nil || !bytes.Equal(crypto.FromECDSA(key.PrivateKey), secret) {
		t.Fatalf("%v", err)
	}
	for _, p := range []int{geth.LightScryptP, 1} {
		key.Id = uuid.New()
		text, err = geth.EncryptKey(key, passphrase, geth.LightScryptN, p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decrypt(text, passphrase); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%x, %v", got, err)
		}
	}
}

// A user's keystore costs an attacker as much as one of go-ethereum.
func TestEncryptIsDear(t *testing.T) {
	t.Parallel()
	text, err := Encrypt(secret, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil || f.Crypto.KDFParams.N != geth.StandardScryptN || f.Crypto.KDFParams.P != geth.StandardScryptP {
		t.Errorf("%s, %v", text, err)
	}
	if bytes.Contains(text, []byte(hex.EncodeToString(secret)[:16])) || bytes.Contains(text, []byte(passphrase)) {
		t.Error("it is not encrypted")
	}
}

// The two examples of the specification of Web3 Secret Storage.
const (
	examplePBKDF2 = `{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
		"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2",
		"kdfparams":{"c":262144,"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
		"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}`
	exampleScrypt = `{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"83dbcc02d8ccb40e466191a123791e0e"},
		"ciphertext":"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c","kdf":"scrypt",
		"kdfparams":{"dklen":32,"n":262144,"p":8,"r":1,"salt":"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"},
		"mac":"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}`
	exampleSecret = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d"
)

func TestExamplesOfTheSpecification(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"pbkdf2": examplePBKDF2, "scrypt": exampleScrypt, "older name": strings.Replace(examplePBKDF2, "crypto", "Crypto", 1)} {
		if got, err := Decrypt([]byte(text), "testpassword"); err != nil || hex.EncodeToString(got) != exampleSecret {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// A file that another program has made costs no more than it may, and its error says what is wrong.
func TestRefused(t *testing.T) {
	t.Parallel()
	good, err := encrypt(secret, passphrase, 1<<12)
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		t.Helper()
		text := strings.Replace(string(good), old, new, 1)
		if text == string(good) {
			t.Fatalf("nothing was replaced: %q", old)
		}
		return text
	}
	for _, c := range []struct {
		name, text, passphrase, want string
		is                           error
	}{
		{"wrong passphrase", string(good), "another", "wrong passphrase", ErrPassphrase},
		{"damaged", with(`"mac":"`, `"mac":"00`), passphrase, "mac", ErrFormat},
		{"no JSON", "hello", passphrase, "no JSON", ErrFormat},
		{"a bare key", hex.EncodeToString(secret), passphrase, "no JSON", ErrFormat},
		{"a list", "[]", passphrase, "no JSON", ErrFormat},
		{"nothing in it", "{}", passphrase, "version", ErrFormat},
		{"version 1", with(`"version":3`, `"version":"1"`), passphrase, "version", ErrFormat},
		{"only a version", `{"version":3}`, passphrase, "cipher", ErrFormat},
		{"no kdf", with(`"kdf":"scrypt"`, `"kdf":""`), passphrase, "kdf", ErrFormat},
		{"argon2", with(`"kdf":"scrypt"`, `"kdf":"argon2id"`), passphrase, "argon2id", ErrFormat},
		{"another cipher", with("aes-128-ctr", "aes-128-cbc"), passphrase, "aes-128-cbc", ErrFormat},
		{"memory", with(`"n":4096`, `"n":1073741824`), passphrase, "too much memory", ErrFormat},
		{"time", with(`"p":1`, `"p":100000`), passphrase, "too much memory or time", ErrFormat},
		{"overflow", with(`"n":4096,"r":8,"p":1`, `"n":4611686018427387904,"r":4611686018427387904,"p":4611686018427387904`), passphrase, "too much memory or time", ErrFormat},
		{"no power of two", with(`"n":4096`, `"n":4097`), passphrase, "no such parameters", ErrFormat},
		{"negative", with(`"r":8`, `"r":-8`), passphrase, "no such parameters", ErrFormat},
		{"text for a number", with(`"n":4096`, `"n":"4096"`), passphrase, "n", ErrFormat},
		{"short key", with(`"dklen":32`, `"dklen":16`), passphrase, "dklen", ErrFormat},
		{"iterations", strings.Replace(examplePBKDF2, "262144", "2000000000", 1), "testpassword", "pbkdf2", ErrFormat},
		{"another hash", strings.Replace(examplePBKDF2, "hmac-sha256", "hmac-md5", 1), "testpassword", "hmac-md5", ErrFormat},
		{"another address", with(`"address":"`, `"address":"00`), passphrase, "address", ErrFormat},
		{"large", with(`"id":"`, `"id":"`+strings.Repeat("x", MaxSize)), passphrase, "larger", ErrFormat},
	} {
		got, err := Decrypt([]byte(c.text), c.passphrase)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || got != nil || strings.Contains(err.Error(), passphrase) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Encrypt([]byte("short"), passphrase); err == nil {
		t.Error("what is no key was encrypted")
	}
}

func FuzzDecrypt(f *testing.F) {
	good, err := encrypt(secret, passphrase, 1<<4)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":3,"crypto":{"kdfparams":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if parsed, err := read(text); err != nil || parsed.Crypto.KDFParams.N > 1<<6 || parsed.Crypto.KDFParams.Iterations > 1<<6 || parsed.Crypto.KDFParams.P > 4 {
			return // only the time that it takes
		}
		if got, err := Decrypt(text, passphrase); err == nil && len(got) != keySize {
			t.Errorf("%d bytes", len(got))
		}
	})
}
