package pay

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Clock tells the time. Tests set their own.
type Clock func() time.Time

// Wallets is a wallet provider: it makes wallets and signs with them.
type Wallets interface {
	// Create makes a new wallet. id is the wallet's own id, for naming it idempotently. If the store
	// says [ErrAddressTaken], the caller asks again.
	Create(ctx context.Context, id, network string) (ProvidedWallet, error)
	// Sign signs a message with the wallet that is its From. Signing twice is harmless: the nonce is
	// part of the message. An error from outside this process is a [*SignerError].
	Sign(ctx context.Context, w Wallet, m Message) (x402.Signature, error)
	// Name returns the provider's name: "local", "none", "external", "cdp". It is also the part of
	// Wallet.ProviderID before the first "_", except that of "none" is "purser".
	Name() string
}

// BytesSigner is a further method of a [Wallets] that signs the Bytes of messages, for rails that package x402 does
// not know. Its errors are those of Sign.
type BytesSigner interface {
	SignBytes(ctx context.Context, w Wallet, m Message) (x402.Signature, error)
}

// KeyProving is a further method of a [Wallets] whose Sign proves that the key belongs to w.Address
// and the message is from there. Package pay then does not recover the signer.
type KeyProving interface {
	ProvesKeys()
}

// KeyImporter is a further method of a [Wallets] whose keys are in the store. Import makes a wallet of
// a private key that was made elsewhere: 32 bytes. *InputError for what is no key.
type KeyImporter interface {
	Import(id string, secret []byte) (ProvidedWallet, error)
}

// Probing is a further method of a [Wallets] outside this process, for health only. It returns nil if
// the provider answers and could sign.
type Probing interface {
	Probe(ctx context.Context) error
}

// Message asks a wallet for a signature: of an EIP-712 message in the two forms that signers take, or of Bytes.
type Message struct {
	From   x402.Address // whose signature it is
	Digest [32]byte
	// TypedData returns the message whose hash is Digest. nil: the message is Bytes.
	TypedData func() x402.TypedData
	// Bytes holds what is signed on another curve, or with another hash: see [Rail] and [BytesSigner].
	Bytes []byte
	// Verify says why a signature of Bytes is not by From.
	Verify func(x402.Signature) error
}

// proven says why a signature is not one of the message.
func (m Message) proven(sig x402.Signature) error {
	if m.TypedData == nil && m.Verify != nil {
		return m.Verify(sig)
	}
	from, err := x402.Recover(m.Digest, sig)
	if err == nil && from != m.From {
		err = fmt.Errorf("it is not by %s, or for another chain or message", m.From)
	}
	return err
}

// MessageOf returns the message to sign for an authorization.
func MessageOf(a x402.Authorization, asset x402.Asset, chainID uint64) Message {
	return Message{
		From: a.From, Digest: a.Digest(asset, chainID),
		TypedData: func() x402.TypedData { return a.TypedData(asset, chainID) },
	}
}

// Facilitator is an x402 facilitator. Errors are transport faults and answers without a
// verdict; they say nothing about the money, unless they are ErrNotSent.
type Facilitator interface {
	// Verify asks whether a payload could be settled. It is read-only.
	Verify(ctx context.Context, x Exchange) (VerifyAnswer, error)
	// Settle sends the transfer to the chain. Called only for a live caller.
	Settle(ctx context.Context, x Exchange) (SettleAnswer, error)
	// Probe asks for /supported, for health only.
	Probe(ctx context.Context) error
}

// Breaking is a further method of a [Facilitator] that has a rest after it has failed too often.
type Breaking interface {
	// Ready returns nil if a new payment of a key may be shown to the facilitator; else the error
	// tells why not, and when. The caller must call giveBack, which is never nil, if no payment was
	// made. A failure that clients or sellers can cause must count for the key alone, because all
	// keys share a facilitator. Payments that were begun are never held up.
	Ready(keyID string) (giveBack func(), err error)
}

// Exchange is the body of /verify and /settle.
type Exchange struct {
	Payload     x402.Payload
	Requirement json.RawMessage // the accepted requirement as the seller sent it
	KeyID       string          // whose payment it is; not sent
}

// VerifyAnswer is a verdict of /verify. Raw is for the caller: a few KB, without secrets.
type VerifyAnswer struct {
	Valid  bool
	Reason string // invalidReason
	Payer  string
	Raw    json.RawMessage
}

// SettleAnswer is a verdict of /settle.
type SettleAnswer struct {
	Success     bool
	Reason      string // errorReason
	Transaction string // as answered, not checked
	Network     string
	Payer       string
	Amount      *money.Amount
	Raw         json.RawMessage
}

// Chain reads the chains of networks. Every answer that is evidence says which chain it comes from.
// Where no RPC is configured for a network, the error is ErrUnwatched.
type Chain interface {
	// Identify asks the RPC who it is: chain id, genesis hash, and the token's
	// DOMAIN_SEPARATOR, each checked against the pinned table. An error names what differs.
	Identify(ctx context.Context, n x402.Network, a x402.Asset) (ChainIdentity, error)
	// Balance is the owner's token balance at the latest block.
	Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (money.Amount, error)
	// Trace looks for what became of an authorization.
	Trace(ctx context.Context, q TraceQuery) (Trace, error)
}

// Header tells the newest block by a single call. A [Chain] may be one as well.
type Header interface {
	Head(ctx context.Context, n x402.Network) (ChainBlock, error)
}

// Allowances is a further method of a [Chain] whose Trace knows the rails of Permit2. Without it nothing
// is paid on them.
type Allowances interface {
	// Allowance tells how much of the owner's tokens a spender may move, at the latest block.
	Allowance(ctx context.Context, n x402.Network, a x402.Asset, owner, spender x402.Address) (money.Amount, error)
}

// ChainIdentity holds an RPC's proven identity.
type ChainIdentity struct {
	ChainID uint64
	Genesis string // block 0's hash, 0x + 64 hex
}

// TraceQuery names an authorization, and when it was made by our clock: the search starts there.
type TraceQuery struct {
	Network       x402.Network
	Asset         x402.Asset
	Authorization x402.Authorization
	Created       time.Time
	// Kept is a block that the RPC must have; nil: none. See [Trace.KeptHash].
	Kept *ChainBlock
}

// Trace holds the chain's answer about an authorization.
type Trace struct {
	// Chain identifies the source of the other fields, asked after everything else. It was checked
	// like that of Identify.
	Chain ChainIdentity
	// Used: the transfer of the authorization was found, in Transaction. On the rails of Permit2 it is a
	// transfer in a transaction that has the authorization, on the others that of AuthorizationUsed.
	Used bool
	// Moved holds the amount of that transfer.
	Moved money.Amount
	// Canceled: it was found that the wallet's owner gave the nonce up.
	Canceled    bool
	Transaction string
	// SafeUsed tells whether the nonce is spent at the block with the `safe` tag, SafeTime its timestamp.
	SafeUsed bool
	SafeTime time.Time
	// SafeNumber and SafeHash name that block.
	SafeNumber uint64
	SafeHash   string
	// Latest holds the time of the newest block that the RPC has; zero: it was not asked for it.
	Latest time.Time
	// KeptHash holds the hash that the RPC has for the number of TraceQuery.Kept; "": none.
	KeptHash string
	// SafeLogs: the Used or Canceled above is at or before the safe block.
	SafeLogs bool
}

// Observer is told what happens. Calls are synchronous and must be quick; they carry no secrets.
type Observer interface {
	// Changed is called once a change of state or flag is durable.
	Changed(p *Payment, was State, v Verdict)
	// Contradicted is called once it is durable that a refused or void payment has moved its money.
	Contradicted(p *Payment)
	// Undelivered is called once it is durable that a payment has moved its money and brought nothing.
	Undelivered(p *Payment)
	// Began is called when a payment was journaled.
	Began(p *Payment)
	// Refused is called when a payment was refused before anything was journaled: by a rule of
	// the key's policy, by "quota", its owner's plan, or by "failures", those of the key before, or by
	// "questions", what its calls have had the RPC asked.
	Refused(door policy.Door, rule string)
	// Ignored is called when the word of an RPC counts for nothing: see [IgnoredReasons].
	Ignored(rpc TimeSource, network, reason string)
	// Took reports how long a stage took: "decide", "journal", "sign", "verify", "settle", "send"
	// (until the lease is given up), and "total" of a payment that went well, until REST's answer
	// or the paid request's response headers.
	Took(stage string, d time.Duration)
	// Waiting is called with 1 when a call begins to wait for a person's answer, and with -1 at the end.
	Waiting(change int)
	// Answered is called when a person has answered an approval.
	Answered(answer ApprovalAnswer)
}

// ChainScanner is a [Chain] that also lists what wallets have paid, to reconcile a restored store.
type ChainScanner interface {
	// Safe finds the newest block that no reorganization is expected to take back.
	Safe(ctx context.Context, n x402.Network) (ChainBlock, error)
	// Before finds a block that is not after a moment, and a few minutes before it at most.
	Before(ctx context.Context, n x402.Network, moment time.Time) (ChainBlock, error)
	// Used lists the authorizations of some wallets that were used in a range of blocks, in the
	// order of the chain, and says which chain it is from.
	Used(ctx context.Context, q UsedQuery) (UsedAnswer, error)
}

// ChainBlock names a block.
type ChainBlock struct {
	Number uint64    `json:"Number"`
	Hash   string    `json:"Hash"` // 0x + 64 hex, lower case
	Time   time.Time `json:"Time"`
}

// UsedQuery names wallets and blocks. The RPC must have Safe, and Known unless nil.
type UsedQuery struct {
	Network x402.Network
	Asset   x402.Asset
	Wallets []x402.Address
	// From and To are the first and the last block.
	From, To uint64
	Safe     ChainBlock
	Known    *ChainBlock
	// Size is the number of blocks to ask for at once, as in the last answer. 0: the usual bound.
	Size uint64
}

// UsedAnswer holds the chain's answer about a range of blocks.
type UsedAnswer struct {
	// Through is the last block that the answer covers; there may be more to ask for.
	Through uint64
	Size    uint64 // see UsedQuery
	Used    []UsedAuthorization
	// Unexplained lists further transfers of the wallets, without a nonce: of an exported key, or by a
	// contract that hides its calls.
	Unexplained []UsedAuthorization
	Chain       ChainIdentity
}

// UsedAuthorization is a used authorization. To and Value are those of its transfer, which Matched
// says was found. One of Permit2 is known by its transfer only.
type UsedAuthorization struct {
	From        x402.Address
	Nonce       x402.Nonce
	Rail        x402.Rail
	Transaction string // 0x + 64 hex, lower case
	Block       ChainBlock
	Matched     bool
	To          x402.Address
	Value       money.Amount
	Fee         money.Amount // the part of Value that the wallet has paid for gas
	ValidAfter  uint64       // of the message of EIP-3009; 0: it is not known
}

// Announcing is a store of several nodes, which compares by what limits they pay. Each node decides by
// its own configuration, so that a budget that differs would be whichever node is asked.
type Announcing interface {
	// Announce tells the other nodes the terms of this one, by the names of options. It returns at once.
	Announce(terms map[string]string)
	// Differences lists the terms that other nodes have other values of, for people. It asks nothing.
	Differences() []string
}

// terms returns the limits of a configuration by name. It has no secrets.
func (o Options) terms() (map[string]string, error) {
	text, err := json.Marshal(o.DefaultPolicy)
	if err != nil {
		return nil, fmt.Errorf("write the default policy: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("read the default policy: %w", err)
	}
	terms := map[string]string{
		"plans": fmt.Sprint(o.Plans), "failures": fmt.Sprint(o.Failures), "retain": o.Retain.String(), "schemes": fmt.Sprint(o.Schemes), "rails": fmt.Sprint(o.Ways),
		"approval_expiry": o.ApprovalExpiry.String(),
	}
	for field := range reflect.TypeFor[policy.Policy]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		terms[name] = string(fields[name]) // "": not set
	}
	return terms, nil
}
