package pay

import (
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// StoreReader reads a store. It has no secret and changes nothing, so that lists and readings need no
// more. Any operation may return ErrUnavailable and the context's error.
type StoreReader interface {
	KeyReader
	AccountReader
	WalletReader
	JournalReader
	SpendBook
	DeclineReader
	RestoreReader
	SafeBlockReader
	StopReader
	Audit
	ArchiveReader
	NoticeReader
	ApprovalReader

	// World returns "sandbox", or the genesis hash (0x…) of the first RPC of a network that answered,
	// or "" while neither is known (docs/design/stores.md).
	World(ctx context.Context, network string) (string, error)
	// Health reports why the store cannot take new payments, or nil.
	Health(ctx context.Context) error
	// Kind names the engine: "bolt", "memory".
	Kind() string
}

// Store keeps keys, wallets, payments, spend events and counters. Every operation is atomic and
// durable when it returns nil, and every limit holds inside it, also between nodes. It must pass
// pay/storetest. Any operation may return ErrUnavailable (nothing was written) and the context's
// error.
type Store interface {
	StoreReader
	Keys
	Accounts
	WalletBook
	Journal
	DeclineBook
	Reconciler
	SafeBlocks
	Stops
	Archive
	Outbox
	Approvals

	// SetWorld records a network's genesis hash if no world is recorded, and returns that in force.
	SetWorld(ctx context.Context, network, genesis string) (string, error)

	// NonceTag marks the nonces of a key, or of equal withdrawals, that begin with a seed. It is made with a secret
	// of the store, so outsiders see no likeness, and it is the same in a store restored from a backup.
	NonceTag(of string, seed NonceSeed) NonceSeed
}

// Waking is a further method of a [Store] that several nodes share.
type Waking interface {
	// Await announces that a call of this node waits until a payment's lease ends, or an approval is
	// answered. The channel is closed when some node says so, or may have. It is nil if no node will: then
	// only the store can tell. The caller must call forget once.
	Await(id string) (come <-chan struct{}, forget func())
}

// KeyReader reads API keys and organizations.
type KeyReader interface {
	// KeyBySecret finds a key by its plaintext, a revoked one too: ErrKeyNotFound. Of a secret that
	// was replaced, it is ErrSecretReplaced, and an *EarlierSecretError for one of an overlap: see [Found].
	KeyBySecret(ctx context.Context, secret string) (Key, error)
	// ExecKey finds the key that was made last as the Exec key: ErrKeyNotFound.
	ExecKey(ctx context.Context) (Key, error)
	// Key finds a key by id: ErrKeyNotFound.
	Key(ctx context.Context, id string) (Key, error)
	// ListKeys lists keys by id, oldest first, from behind the id after ("" is the beginning);
	// at most 1,000 at a time.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)
	// Organization finds an organization; one that does not exist has the free plan.
	Organization(ctx context.Context, id string) (Organization, error)
}

// Keys keeps API keys and organizations.
type Keys interface {
	KeyReader

	// CreateKey stores a key and, for a claimed one, its organization. ErrKeyExists, also for a
	// secret that was replaced, and for an Exec key while there is one that is not revoked. ErrKeyLimit.
	CreateKey(ctx context.Context, k NewKey) (Key, error)
	// ReissueKey gives a key another secret. The earlier one finds no key any more, for ever, but for an
	// overlap, and cannot be that of a new key. ErrKeyNotFound, ErrKeyRevoked, ErrKeyExists, *InputError.
	ReissueKey(ctx context.Context, r Reissue) (Key, error)
	// NoteUse notes the use of a key by [Use.Apply]: ErrKeyNotFound.
	NoteUse(ctx context.Context, u Use) error
	// SetPolicy replaces a key's policy, nil removing it, and raises its PolicyRevision by
	// one: ErrKeyNotFound. Begin sees the change at once.
	SetPolicy(ctx context.Context, keyID string, pol *policy.Policy) (Key, error)
	// SetPolicyAt is SetPolicy for a caller that has seen the key in a PolicyRevision:
	// ErrPolicyChanged if the key has another one.
	SetPolicyAt(ctx context.Context, keyID string, revision uint64, pol *policy.Policy) (Key, error)
	// AdoptKey sets a key's Operator, and raises its PolicyRevision if that is new: ErrKeyNotFound.
	AdoptKey(ctx context.Context, keyID string) (Key, error)
}

// WalletReader reads wallets, and no key material.
type WalletReader interface {
	// WalletCount returns the number that CreateWallet compares with its limit.
	WalletCount(ctx context.Context, k Key) (int, error)
	// Wallets lists the live wallets that a key may use, in the order in which they pay: those that
	// are lent to it, the one lent last first, and then its own, oldest first.
	Wallets(ctx context.Context, keyID string) ([]Wallet, error)
	// AllWallets lists wallets of all keys by id, deleted ones too, from behind the id after
	// ("" is the beginning); at most 1,000 at a time.
	AllWallets(ctx context.Context, after string, limit int) ([]Wallet, error)
	// Wallet finds a wallet, deleted or not: ErrWalletNotFound.
	Wallet(ctx context.Context, id string) (Wallet, error)
	// WalletByAddress finds the wallet of an address, deleted or not: ErrWalletNotFound.
	WalletByAddress(ctx context.Context, address x402.Address) (Wallet, error)
	// WalletKeys lists the ids of the keys that a wallet is lent to, from behind the id after ("" is
	// the beginning); at most 1,000 at a time.
	WalletKeys(ctx context.Context, walletID, after string, limit int) ([]string, error)
	// DeploymentWallet finds the live wallet that the operator's keys draw from on a network unless
	// they have another one: ErrWalletNotFound.
	DeploymentWallet(ctx context.Context, network string) (Wallet, error)
}

// WalletBook keeps wallets.
type WalletBook interface {
	WalletReader

	// CreateWallet stores a wallet unless its key, or the organization of a claimed key, has
	// `limit` live ones or, with NewWallet.Plans, those of the plan: ErrWalletLimit. One address has
	// one wallet for ever: ErrAddressTaken.
	CreateWallet(ctx context.Context, w NewWallet, limit int) error
	// DeleteWallet hides a live wallet of the key: ErrWalletNotFound.
	DeleteWallet(ctx context.Context, keyID, id string, at time.Time) error
	// RestoreWallet undoes DeleteWallet, whatever plans say: ErrWalletNotFound, ErrWalletLive.
	RestoreWallet(ctx context.Context, id string) (Wallet, error)
	// WalletSecret decrypts a wallet's key material, of a deleted one too.
	WalletSecret(ctx context.Context, id string) ([]byte, error)
	// ExportWallet is WalletSecret for the operator. It returns once the audit has the export.
	ExportWallet(ctx context.Context, id string) ([]byte, error)

	// ShareWallet lends a live wallet to keys that are not its owner; the owner is passed over.
	// ErrWalletNotFound, ErrKeyNotFound, ErrKeyRevoked: then it is lent to none of them.
	ShareWallet(ctx context.Context, s Share) error
	// UnshareWallet takes a wallet back from keys. Payments that are open stay bound to it.
	// ErrWalletNotFound, also for a key that it is not lent to.
	UnshareWallet(ctx context.Context, walletID string, keyIDs []string) error
	// KeepApproving replaces Wallet.Approving, of a deleted wallet, too: ErrWalletNotFound.
	KeepApproving(ctx context.Context, walletID string, a Approving) (Wallet, error)
	// SetDeploymentWallet records it for the wallet's network: ErrWalletNotFound.
	SetDeploymentWallet(ctx context.Context, walletID string) error
}

// JournalReader reads payments, spend events and counters.
type JournalReader interface {
	// Payment finds a payment: ErrPaymentNotFound.
	Payment(ctx context.Context, id string) (*Payment, error)
	// PaymentsByTransaction lists at most limit payments of all keys with the hash of a transaction, by id. Upper and
	// lower case are alike. It costs no more than those that it lists.
	PaymentsByTransaction(ctx context.Context, hash string, limit int) ([]*Payment, error)
	// Payments lists a key's payments, newest first.
	Payments(ctx context.Context, q PaymentQuery) ([]*Payment, error)
	// AllPayments lists payments of all keys, newest first, at a cost of those that it lists.
	AllPayments(ctx context.Context, q LabelQuery) ([]*Payment, error)
	// Due lists payments whose Check has come, the longest due first.
	Due(ctx context.Context, now time.Time, limit int) ([]*Payment, error)
	// CountOpen counts all payments with a label ("open", "unresolved", "disputed").
	CountOpen(ctx context.Context, label string) (int, error)
	// SpendEvents lists a key's events, newest first. ErrEventNotFound for another's q.Before.
	SpendEvents(ctx context.Context, keyID string, q SpendQuery) ([]SpendEvent, error)
	// Counter reads a counter; one that was never written is zero.
	Counter(ctx context.Context, c Counter) (money.Amount, error)
	// VisitCounters is [BeginView.VisitCounters]. visit must not call the store.
	VisitCounters(ctx context.Context, prefix Counter, visit func(c Counter, amount money.Amount) (more bool)) error
}

// Journal keeps payments, spend events and counters.
type Journal interface {
	JournalReader

	// Begin decides and writes one call's payment by [Begin.Decide], whose errors are returned as
	// they are. New payments also stop while free disk is short: ErrUnavailable. Until a restored
	// store is reconciled, none begins or is sent again: *ReconcilingError.
	Begin(ctx context.Context, b *Begin) (Begun, error)
	// Acquire takes the free lease of a payment. It fails with ErrLeaseHeld when the lease is held.
	Acquire(ctx context.Context, id, owner string, now, until time.Time) (*Payment, error)
	// Renew extends a lease: ErrLeaseLost when the fence is not current.
	Renew(ctx context.Context, id string, fence uint64, until time.Time) error
	// Record applies an outcome: see [Payment.Apply]. It returns the row as written. ErrLeaseLost,
	// ErrTransactionKnown, ErrPaymentNotFound; ErrQueued when the store cannot write and keeps the
	// outcome in memory, with the row as it will be.
	Record(ctx context.Context, o Outcome) (*Payment, Effects, error)

	// Lapse ends leases that ran out, and returns how many. Those that held reports are under way
	// on this node. held may be nil; it must not call the store.
	Lapse(ctx context.Context, now time.Time, held func(paymentID string) bool) (int, error)
}

// PaymentQuery selects payments of one key.
type PaymentQuery struct {
	KeyID  string
	Label  string // a state or flag; "" is any
	Before string // id of the last payment of the page before; "" for the first
	Limit  int
}

// LabelQuery selects payments of all keys.
type LabelQuery struct {
	Label   string   // a state or flag; "" is any
	Without []string // states and flags that they must not have
	Before  string   // id of the last payment of the page before; "" for the first
	Limit   int
}

// Wants reports whether the query selects a payment by its labels.
func (q LabelQuery) Wants(p *Payment) bool {
	return p.Labelled(q.Label) && !slices.ContainsFunc(q.Without, func(l string) bool { return slices.Contains(p.Labels(), l) })
}
