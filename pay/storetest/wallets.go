package storetest

import (
	"bytes"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// newWallet prepares a wallet of a key.
func newWallet(k pay.Key) pay.NewWallet {
	id := newID()
	hash := pay.HashOf(id)
	address := x402.EVMAddress([20]byte(hash[:20]))
	return pay.NewWallet{
		Wallet: pay.Wallet{ID: id, KeyID: k.ID, ProviderID: "local_" + id, Network: "base", Address: &address, Created: noon},
		Secret: []byte("secret of " + id),
	}
}

// claimed makes a key of an organization.
func (f *fixture) claimed(org string) pay.Key {
	f.Helper()
	return must(f.CreateKey(f.ctx, newKey(org)))
}

var walletTests = map[string]func(*fixture){
	"kept and listed, oldest first": func(f *fixture) {
		k, other := f.key(), f.key()
		var want []pay.Wallet
		for range 3 {
			w := newWallet(k)
			f.must(f.CreateWallet(f.ctx, w, 10))
			want = append(want, w.Wallet)
			f.must(f.CreateWallet(f.ctx, newWallet(other), 10))
		}
		list := must(f.Wallets(f.ctx, k.ID))
		f.same("wallets", list, want)
		f.same("wallet", must(f.Wallet(f.ctx, want[1].ID)), want[1])
		list = must(f.Wallets(f.ctx, newID()))
		f.same("wallets of an unknown key", len(list), 0)
	},
	"secrets": func(f *fixture) {
		k := f.key()
		with, without := newWallet(k), newWallet(k)
		without.Secret, without.Address = nil, nil
		f.must(f.CreateWallet(f.ctx, with, 10))
		f.must(f.CreateWallet(f.ctx, without, 10))
		secret := must(f.WalletSecret(f.ctx, with.ID))
		if !bytes.Equal(secret, with.Secret) {
			f.Fatal("another secret came back")
		}
		secret = must(f.WalletSecret(f.ctx, without.ID))
		if secret != nil {
			f.Fatal("a secret came back where none was given")
		}
		f.same("wallet without address", must(f.Wallet(f.ctx, without.ID)), without.Wallet)
	},
	"unknown": func(f *fixture) {
		k := f.key()
		_, err := f.Wallet(f.ctx, newID())
		f.fails(err, pay.ErrWalletNotFound)
		_, err = f.WalletSecret(f.ctx, newID())
		f.fails(err, pay.ErrWalletNotFound)
		f.fails(f.DeleteWallet(f.ctx, k.ID, newID(), noon), pay.ErrWalletNotFound)
		f.fails(f.CreateWallet(f.ctx, newWallet(pay.Key{ID: newID()}), 10), pay.ErrKeyNotFound)
	},
	"deleted": func(f *fixture) {
		k, other := f.key(), f.key()
		w := newWallet(k)
		f.must(f.CreateWallet(f.ctx, w, 1))
		f.fails(f.DeleteWallet(f.ctx, other.ID, w.ID, noon), pay.ErrWalletNotFound)
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon.Add(time.Hour)))
		f.fails(f.DeleteWallet(f.ctx, k.ID, w.ID, noon), pay.ErrWalletNotFound)
		f.same("live wallets", len(must(f.Wallets(f.ctx, k.ID))), 0)
		got := must(f.Wallet(f.ctx, w.ID))
		if got.Deleted == nil || !got.Deleted.Equal(noon.Add(time.Hour)) {
			f.Fatalf("deleted at %v", got.Deleted)
		}
		secret := must(f.WalletSecret(f.ctx, w.ID))
		if !bytes.Equal(secret, w.Secret) {
			f.Fatal("the secret of a deleted wallet is gone")
		}
		f.must(f.CreateWallet(f.ctx, newWallet(k), 1)) // there is room again
	},
	"limit": func(f *fixture) {
		k, other := f.key(), f.key()
		for range 2 {
			f.must(f.CreateWallet(f.ctx, newWallet(k), 2))
		}
		refused := newWallet(k)
		f.fails(f.CreateWallet(f.ctx, refused, 2), pay.ErrWalletLimit)
		_, err := f.Wallet(f.ctx, refused.ID)
		f.fails(err, pay.ErrWalletNotFound)
		f.must(f.CreateWallet(f.ctx, newWallet(other), 2))
		f.must(f.CreateWallet(f.ctx, newWallet(k), 3))
		f.same("count", must(f.WalletCount(f.ctx, k)), 3)
	},
	"limit over an organization": func(f *fixture) {
		a, b, stranger := f.claimed("org"), f.claimed("org"), f.claimed("org2")
		w := newWallet(a)
		f.must(f.CreateWallet(f.ctx, w, 3))
		f.must(f.CreateWallet(f.ctx, newWallet(b), 3))
		f.must(f.CreateWallet(f.ctx, newWallet(b), 3))
		f.fails(f.CreateWallet(f.ctx, newWallet(a), 3), pay.ErrWalletLimit)
		f.must(f.CreateWallet(f.ctx, newWallet(stranger), 3))
		for _, k := range []pay.Key{a, b} {
			f.same("count", must(f.WalletCount(f.ctx, k)), 3)
		}
		f.must(f.DeleteWallet(f.ctx, a.ID, w.ID, noon))
		f.must(f.CreateWallet(f.ctx, newWallet(b), 3))
	},
	"limit at once": func(f *fixture) {
		keys := []pay.Key{f.claimed("org"), f.claimed("org"), f.claimed("org")}
		errs := together(crowd, func(i int) error { return f.CreateWallet(f.ctx, newWallet(keys[i%len(keys)]), 10) })
		f.same("created", f.succeeded(errs, pay.ErrWalletLimit), 10)
	},
	"one wallet for each address": func(f *fixture) {
		k, other := f.key(), f.key()
		w, bare := newWallet(k), newWallet(k)
		bare.Address = nil
		_, err := f.WalletByAddress(f.ctx, *w.Address)
		f.fails(err, pay.ErrWalletNotFound)
		f.must(f.CreateWallet(f.ctx, w, 10))
		f.must(f.CreateWallet(f.ctx, bare, 10))
		second := newWallet(other)
		second.Address, second.Network = w.Address, "base-sepolia"
		f.fails(f.CreateWallet(f.ctx, second, 10), pay.ErrAddressTaken)
		_, err = f.Wallet(f.ctx, second.ID)
		f.fails(err, pay.ErrWalletNotFound)
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon))
		f.fails(f.CreateWallet(f.ctx, second, 10), pay.ErrAddressTaken) // its account can receive money
		f.same("wallet", must(f.WalletByAddress(f.ctx, *w.Address)).ID, w.ID)
	},
	"one address at once": func(f *fixture) {
		k, address := f.key(), x402.EVMAddress([20]byte{1})
		errs := together(crowd, func(int) error {
			w := newWallet(k)
			w.Address = &address
			return f.CreateWallet(f.ctx, w, crowd)
		})
		f.same("created", f.succeeded(errs, pay.ErrAddressTaken), 1)
	},
	"deleted at once": func(f *fixture) {
		k := f.key()
		w := newWallet(k)
		f.must(f.CreateWallet(f.ctx, w, 1))
		errs := together(crowd, func(int) error { return f.DeleteWallet(f.ctx, k.ID, w.ID, noon) })
		f.same("deletions", f.succeeded(errs, pay.ErrWalletNotFound), 1)
	},
}
