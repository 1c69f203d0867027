package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// sharedWallet makes a wallet and lends it to keys.
func (f *fixture) sharedWallet(owner pay.Key, with ...pay.Key) pay.Wallet {
	f.Helper()
	w := newWallet(owner)
	f.must(f.CreateWallet(f.ctx, w, 10))
	f.must(f.share(w.Wallet, noon, with...))
	return w.Wallet
}

func (f *fixture) share(w pay.Wallet, at time.Time, with ...pay.Key) error {
	s := pay.Share{WalletID: w.ID, At: at}
	for _, k := range with {
		s.KeyIDs = append(s.KeyIDs, k.ID)
	}
	return f.ShareWallet(f.ctx, s)
}

var shareTests = map[string]func(*fixture){
	"lent ones pay first": func(f *fixture) {
		owner, k := f.key(), f.key()
		own := newWallet(k)
		f.must(f.CreateWallet(f.ctx, own, 10))
		first, second := f.sharedWallet(owner, k), f.sharedWallet(owner)
		f.must(f.share(second, noon.Add(time.Minute), k, owner)) // the owner has it already
		f.same("wallets", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{second, first, own.Wallet})
		f.must(f.share(first, noon.Add(time.Hour), k))
		f.same("wallets", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{first, second, own.Wallet})
		f.same("the owner's", must(f.Wallets(f.ctx, owner.ID)), []pay.Wallet{first, second})
		f.same("count", must(f.WalletCount(f.ctx, k)), 1)
		f.fails(f.DeleteWallet(f.ctx, k.ID, first.ID, noon), pay.ErrWalletNotFound)

		f.must(f.DeleteWallet(f.ctx, owner.ID, first.ID, noon))
		f.same("after a deletion", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{second, own.Wallet})
		f.fails(f.share(first, noon, k), pay.ErrWalletNotFound)
		must(f.RestoreWallet(f.ctx, first.ID))
		f.same("after it was undone", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{first, second, own.Wallet})
		f.must(f.UnshareWallet(f.ctx, first.ID, []string{k.ID}))
		f.same("after it was taken back", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{second, own.Wallet})
		f.fails(f.UnshareWallet(f.ctx, first.ID, []string{k.ID}), pay.ErrWalletNotFound)
	},
	"to all or none": func(f *fixture) {
		owner, k, gone := f.key(), f.key(), f.key()
		must(f.StopKey(f.ctx, gone.ID, pay.KeyStop{Do: pay.StopRevoke, At: noon}))
		w := f.sharedWallet(owner)
		f.fails(f.share(w, noon, k, gone), pay.ErrKeyRevoked)
		f.fails(f.share(w, noon, k, pay.Key{ID: newID()}), pay.ErrKeyNotFound)
		f.fails(f.share(pay.Wallet{ID: newID()}, noon, k), pay.ErrWalletNotFound)
		f.same("keys", len(must(f.WalletKeys(f.ctx, w.ID, "", 10))), 0)
		f.must(f.share(w, noon, k))
		f.fails(f.UnshareWallet(f.ctx, w.ID, []string{k.ID, owner.ID}), pay.ErrWalletNotFound)
		f.same("keys", must(f.WalletKeys(f.ctx, w.ID, "", 10)), []string{k.ID})
	},
	"listed": func(f *fixture) {
		owner := f.key()
		var keys []pay.Key
		var ids []string
		for range 5 {
			keys = append(keys, f.key())
			ids = append(ids, keys[len(keys)-1].ID)
		}
		slices.Sort(ids)
		w := f.sharedWallet(owner, keys...)
		f.same("first", must(f.WalletKeys(f.ctx, w.ID, "", 2)), ids[:2])
		f.same("next", must(f.WalletKeys(f.ctx, w.ID, ids[1], 10)), ids[2:])
		f.same("of another", len(must(f.WalletKeys(f.ctx, newID(), "", 10))), 0)
	},
	"a payment is journaled with a wallet that its key may use": func(f *fixture) {
		owner, k := f.key(), f.key()
		w := f.sharedWallet(owner, k)
		begin := func(by pay.Key) error {
			b := want(by, noon)
			b.Policy = new(policy.Policy)
			b.New.WalletID, b.WalletOwner = w.ID, owner.ID
			_, err := f.Begin(f.ctx, b)
			return err
		}
		f.must(begin(owner))
		f.must(begin(k))
		f.fails(begin(f.key()), pay.ErrPolicyChanged)
		f.must(f.DeleteWallet(f.ctx, owner.ID, w.ID, noon))
		f.fails(begin(k), pay.ErrPolicyChanged)
		f.fails(begin(owner), pay.ErrPolicyChanged)
		must(f.RestoreWallet(f.ctx, w.ID))
		f.must(begin(k))
		f.must(f.UnshareWallet(f.ctx, w.ID, []string{k.ID}))
		f.fails(begin(k), pay.ErrPolicyChanged)
		f.must(begin(owner))
	},
	"one hold for all keys": func(f *fixture) {
		owner := f.key()
		var keys []pay.Key
		for range 20 {
			keys = append(keys, f.key())
		}
		w := f.sharedWallet(owner, keys...)
		short := errors.New("too little")
		hold := pay.Counter("hold/" + w.ID)
		errs := together(crowd, func(i int) error {
			b := want(keys[i%len(keys)], noon)
			b.Limits[3].Counter = hold
			_, err := f.Begin(f.ctx, bound(b, hold, 52, short))
			return err
		})
		f.same("begun", f.succeeded(errs, short), 10)
		f.counts("hold", hold, 50)
	},
	"the deployment's": func(f *fixture) {
		k := f.key()
		_, err := f.DeploymentWallet(f.ctx, "base")
		f.fails(err, pay.ErrWalletNotFound)
		f.fails(f.SetDeploymentWallet(f.ctx, newID()), pay.ErrWalletNotFound)
		w, next := f.sharedWallet(k), f.sharedWallet(k)
		f.must(f.SetDeploymentWallet(f.ctx, w.ID))
		f.must(f.SetDeploymentWallet(f.ctx, w.ID))
		f.same("wallet", must(f.DeploymentWallet(f.ctx, "base")), w)
		_, err = f.DeploymentWallet(f.ctx, "base-sepolia")
		f.fails(err, pay.ErrWalletNotFound)
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon))
		_, err = f.DeploymentWallet(f.ctx, "base")
		f.fails(err, pay.ErrWalletNotFound)
		f.must(f.SetDeploymentWallet(f.ctx, next.ID))
		f.same("wallet", must(f.DeploymentWallet(f.ctx, "base")), next)
	},
}
