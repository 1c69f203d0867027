package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Payments and spend events are stored as CBOR with numbered fields, because there are many of
// them and each payment is written several times. A number is never used again for another field.
// Zero values take no room. Everything else is stored as JSON. The types here say how rows are read;
// writer.go writes them.
//
// A row of its own holds what a payment needs for its payload. It is long, it is written once or
// twice, and it is deleted when the payment is retired, so that its pages are used again.

// paymentRow is a pay.Payment as it is stored.
type paymentRow struct {
	ID             rowID          `cbor:"1,keyasint,omitempty"`
	KeyID          rowID          `cbor:"2,keyasint,omitempty"`
	OrganizationID rowID          `cbor:"3,keyasint,omitempty"`
	Door           policy.Door    `cbor:"4,keyasint,omitempty"`
	Task           string         `cbor:"5,keyasint,omitempty"`
	RequestURL     string         `cbor:"6,keyasint,omitempty"`
	Host           string         `cbor:"7,keyasint,omitempty"` // sameHost: the one of RequestURL
	Settlement     pay.Settlement `cbor:"8,keyasint,omitempty"`
	Network        string         `cbor:"9,keyasint,omitempty"`
	Scheme         string         `cbor:"10,keyasint,omitempty"`
	Asset          x402.Address   `cbor:"11,keyasint"`
	PayTo          x402.Address   `cbor:"12,keyasint"`
	Amount         Number         `cbor:"13,keyasint,omitempty"`
	Currency       string         `cbor:"14,keyasint,omitempty"`
	WalletID       rowID          `cbor:"15,keyasint,omitempty"`
	Created        Nanos          `cbor:"16,keyasint,omitempty"`
	Fingerprint    pay.Hash       `cbor:"17,keyasint,omitzero"`
	Identity       pay.Hash       `cbor:"18,keyasint,omitzero"`
	IdempotencyKey string         `cbor:"19,keyasint,omitempty"`
	From           x402.Address   `cbor:"21,keyasint"`
	To             *x402.Address  `cbor:"22,keyasint,omitempty"` // nil: PayTo
	Value          *Number        `cbor:"23,keyasint,omitempty"` // nil: Amount
	ValidAfter     uint64         `cbor:"24,keyasint,omitempty"`
	ValidBefore    uint64         `cbor:"25,keyasint,omitempty"`
	Nonce          x402.Nonce     `cbor:"26,keyasint"`
	Attempt        uint64         `cbor:"27,keyasint,omitempty"`
	State          pay.State      `cbor:"29,keyasint,omitempty"`
	Flags          uint32         `cbor:"30,keyasint,omitempty"` // see flagsOf
	RefusedAt      pay.Stage      `cbor:"31,keyasint,omitempty"`
	Closed         Nanos          `cbor:"32,keyasint,omitempty"`
	Resolution     *resolutionRow `cbor:"33,keyasint,omitempty"`
	Transaction    rowHash        `cbor:"34,keyasint,omitempty"`
	Reason         string         `cbor:"35,keyasint,omitempty"`
	Notes          []noteRow      `cbor:"37,keyasint,omitempty"`
	EventID        rowID          `cbor:"38,keyasint,omitempty"`
	LeaseOwner     string         `cbor:"39,keyasint,omitempty"`
	LeaseFence     uint64         `cbor:"40,keyasint,omitempty"`
	LeaseUntil     Nanos          `cbor:"41,keyasint,omitempty"`
	Reservations   []reservedRow  `cbor:"42,keyasint,omitempty"`
	Price          string         `cbor:"43,keyasint,omitempty"`
	Check          Nanos          `cbor:"44,keyasint,omitempty"`
	Checks         int            `cbor:"45,keyasint,omitempty"`
	Canceling      *cancelingRow  `cbor:"46,keyasint,omitempty"`
	SignedReceipt  []byte         `cbor:"47,keyasint,omitempty"`
	Rail           x402.Rail      `cbor:"48,keyasint,omitempty"`
	Facilitator    x402.Address   `cbor:"49,keyasint,omitzero"`
	Charged        Number         `cbor:"50,keyasint,omitempty"`
	SellerSaid     string         `cbor:"51,keyasint,omitempty"`
	Waited         int64          `cbor:"52,keyasint,omitempty"` // in milliseconds
	CalledUntil    Nanos          `cbor:"53,keyasint,omitempty"`
	Message        string         `cbor:"54,keyasint,omitempty"`
	Height         uint64         `cbor:"55,keyasint,omitempty"`
	AnswerStatus   int            `cbor:"56,keyasint,omitempty"`
	AnswerHash     pay.Hash       `cbor:"57,keyasint,omitzero"`
	AnswerSize     int64          `cbor:"58,keyasint,omitempty"` // in bytes
}

// payloadRow holds the fields of a pay.Payment that go when it is retired.
type payloadRow struct {
	Version    int             `cbor:"1,keyasint,omitempty"`
	Accepted   []byte          `cbor:"2,keyasint,omitempty"`
	Resource   []byte          `cbor:"3,keyasint,omitempty"`
	Extensions []byte          `cbor:"4,keyasint,omitempty"`
	Signature  *x402.Signature `cbor:"5,keyasint,omitempty"`
	Detail     []byte          `cbor:"6,keyasint,omitempty"`
}

type resolutionRow struct {
	_      struct{} `cbor:",toarray"`
	At     Nanos
	By     string
	As     pay.State
	Reason string
	Proven bool
}

type cancelingRow struct {
	_           struct{} `cbor:",toarray"`
	At          Nanos
	HandedOut   bool
	Nonce, Gas  uint64
	MaxFee, Tip Number
}

func (r *cancelingRow) canceling() (*pay.Canceling, error) {
	c := &pay.Canceling{At: r.At.Time(), HandedOut: r.HandedOut, Terms: pay.TransactionTerms{Nonce: r.Nonce, Gas: r.Gas}}
	var err error
	if c.Terms.MaxFee, err = r.MaxFee.Amount(); err == nil {
		c.Terms.Tip, err = r.Tip.Amount()
	}
	return c, err
}

type noteRow struct {
	_    struct{} `cbor:",toarray"`
	At   Nanos
	Text string
}

type reservedRow struct {
	_        struct{} `cbor:",toarray"`
	Counter  string   // see shortener
	Amount   Number
	Release  pay.Release
	Released bool
}

// eventRow is a pay.SpendEvent as it is stored. Its own id and that of its API key are in
// the key of the row only.
type eventRow struct {
	PaymentID  rowID  `cbor:"3,keyasint"`
	Amount     Number `cbor:"4,keyasint,omitempty"`
	Currency   string `cbor:"5,keyasint,omitempty"`
	RequestURL string `cbor:"6,keyasint,omitempty"`
	Task       string `cbor:"7,keyasint,omitempty"`
	Host       string `cbor:"8,keyasint,omitempty"`
	Created    Nanos  `cbor:"9,keyasint,omitempty"`
	Corrects   rowID  `cbor:"10,keyasint,omitempty"`
}

// rowID is an id. A UUID takes 16 bytes.
type rowID string

// UnmarshalCBOR reads what rowWriter.id wrote.
func (id *rowID) UnmarshalCBOR(data []byte) error {
	return eitherCBOR(data, (*string)(id), func(b []byte) (string, error) {
		u, err := uuid.FromBytes(b)
		return u.String(), err
	})
}

// rowHash is the hash of a transaction. 0x and 64 lower-case hex digits take 32 bytes.
type rowHash string

// UnmarshalCBOR reads what rowWriter.hash wrote.
func (h *rowHash) UnmarshalCBOR(data []byte) error {
	return eitherCBOR(data, (*string)(h), func(b []byte) (string, error) {
		var n x402.Nonce
		if copy(n[:], b) != len(b) {
			return "", fmt.Errorf("a hash of %d bytes", len(b))
		}
		return n.String(), nil
	})
}

// unmarshal reads rows, and those of earlier versions whose text is not UTF-8.
func unmarshal(data []byte, to any) error {
	err := cbor.Unmarshal(data, to)
	if _, invalid := errors.AsType[*cbor.SemanticError](err); !invalid {
		return err
	}
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		return err
	}
	return mode.Unmarshal(data, to)
}

// eitherCBOR reads text as it is, and a byte string with a function.
func eitherCBOR(data []byte, to *string, read func([]byte) (string, error)) (err error) {
	if len(data) > 0 && data[0]>>5 == cborText {
		return unmarshal(data, to)
	}
	var b []byte
	if err := unmarshal(data, &b); err != nil {
		return err
	}
	*to, err = read(b)
	return err
}

// Number is an amount in big-endian bytes without leading zeros.
type Number []byte

// Amount returns the amount. It fails if the bytes are too many.
func (a Number) Amount() (money.Amount, error) {
	n, ok := money.FromBig(new(big.Int).SetBytes(a))
	if !ok {
		return n, fmt.Errorf("an amount of %d bytes", len(a))
	}
	return n, nil
}

// Nanos is a time in nanoseconds since 1970, UTC. 0 is the zero time.
type Nanos int64

// NanosOf returns a time as it is stored.
func NanosOf(t time.Time) Nanos {
	if t.IsZero() {
		return 0
	}
	return Nanos(t.UnixNano())
}

// Time returns the time in UTC.
func (t Nanos) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// sameHost stands for the host of the payment's URL.
const sameHost = "\x00"

func shortHost(host, url string) string {
	if host != "" && host == hostIn(url) {
		return sameHost
	}
	return host
}

func longHost(host, url string) string {
	if host == sameHost {
		return hostIn(url)
	}
	return host
}

// hostIn returns what stands between the scheme and the path of a URL.
func hostIn(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// counterIDs lists the ids of a payment that the names of its counters repeat. A counter is stored
// with one byte for each id: its place in the list, from 1.
func counterIDs(p *pay.Payment) [3]string { return [...]string{p.KeyID, p.WalletID, p.OrganizationID} }

// verbatim marks a name that is stored as it is, because it has such a byte by itself.
const verbatim = "\x00"

func shorten(c pay.Counter, ids [3]string) string {
	name := string(c)
	if strings.ContainsAny(name, "\x00\x01\x02\x03") {
		return verbatim + name
	}
	for i, id := range ids {
		if len(id) > 1 {
			name = strings.ReplaceAll(name, id, string(rune(1+i)))
		}
	}
	return name
}

func lengthen(short string, ids [3]string) pay.Counter {
	if name, whole := strings.CutPrefix(short, verbatim); whole {
		return pay.Counter(name)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		short = strings.ReplaceAll(short, string(rune(1+i)), ids[i])
	}
	return pay.Counter(short)
}

// flags lists the flags of a payment, in the order of their bits.
func flags(p *pay.Payment) []*bool {
	return []*bool{
		&p.Refused, &p.Doubted, &p.Unresolved, &p.Confirmed, &p.Disputed, &p.Reconciled,
		&p.Failed, &p.Answered, &p.Unanswered, &p.Receipted, &p.Retired, &p.Bound, &p.Undelivered, &p.Withheld,
		&p.AnswerBody.Cut,
	}
}

func flagBits(p *pay.Payment) (bits uint64) {
	for i, flag := range flags(p) {
		if *flag {
			bits |= 1 << i
		}
	}
	return bits
}

func (r *paymentRow) payment() (p *pay.Payment, err error) {
	p = &pay.Payment{
		ID: string(r.ID), KeyID: string(r.KeyID), OrganizationID: string(r.OrganizationID), Door: r.Door, Task: r.Task,
		RequestURL: r.RequestURL, Host: longHost(r.Host, r.RequestURL),
		Terms:    pay.Terms{Settlement: r.Settlement, Network: r.Network, Scheme: r.Scheme, Asset: r.Asset, PayTo: r.PayTo},
		Currency: r.Currency, WalletID: string(r.WalletID), Created: r.Created.Time(),
		Fingerprint: r.Fingerprint, Identity: r.Identity, IdempotencyKey: r.IdempotencyKey,
		Authorization: x402.Authorization{
			From: r.From, To: r.PayTo, ValidAfter: r.ValidAfter, ValidBefore: r.ValidBefore, Nonce: r.Nonce,
			Rail: r.Rail, Facilitator: r.Facilitator, Message: r.Message, Height: r.Height,
		},
		Attempt: r.Attempt, State: r.State, RefusedAt: r.RefusedAt, Closed: r.Closed.Time(),
		Transaction: string(r.Transaction), Reason: r.Reason, EventID: string(r.EventID),
		Lease: pay.Lease{Owner: r.LeaseOwner, Fence: r.LeaseFence, Until: r.LeaseUntil.Time()},
		Check: r.Check.Time(), Checks: r.Checks, SignedReceipt: r.SignedReceipt, SellerSaid: r.SellerSaid,
		Waited: time.Duration(r.Waited) * time.Millisecond, CalledUntil: r.CalledUntil.Time(),
		AnswerStatus: r.AnswerStatus, AnswerBody: pay.AnswerBody{Hash: r.AnswerHash, Size: r.AnswerSize},
	}
	if !r.Rail.Known() && !r.Rail.Other() {
		return nil, fmt.Errorf("payment of an unknown %s", r.Rail)
	}
	if p.Terms.Amount, err = r.Amount.Amount(); err != nil {
		return nil, err
	}
	if p.Charged, err = r.Charged.Amount(); err != nil {
		return nil, err
	}
	p.Authorization.Value = p.Terms.Amount
	if r.Value != nil {
		if p.Authorization.Value, err = r.Value.Amount(); err != nil {
			return nil, err
		}
	}
	if r.To != nil {
		p.Authorization.To = *r.To
	}
	for i, flag := range flags(p) {
		*flag = r.Flags&(1<<i) != 0
	}
	if w := r.Resolution; w != nil {
		p.Resolution = &pay.Resolution{At: w.At.Time(), By: w.By, As: w.As, Reason: w.Reason, Proven: w.Proven}
	}
	if r.Canceling != nil {
		if p.Canceling, err = r.Canceling.canceling(); err != nil {
			return nil, err
		}
	}
	for _, n := range r.Notes {
		p.Notes = append(p.Notes, pay.Note{At: n.At.Time(), Text: n.Text})
	}
	ids := counterIDs(p)
	p.Price = lengthen(r.Price, ids)
	for _, v := range r.Reservations {
		amount, err := v.Amount.Amount()
		if err != nil {
			return nil, err
		}
		p.Reservations = append(p.Reservations, pay.Reservation{
			Counter: lengthen(v.Counter, ids), Amount: amount, Release: v.Release, Released: v.Released,
		})
	}
	return p, nil
}

// Stored holds the rows of a payment. payload is nil if it has none.
type Stored struct{ Row, Payload []byte }

// SamePayload reports whether two payments have the same payload row.
func SamePayload(a, b *pay.Payment) bool {
	x, y := a.Offer, b.Offer
	sameSignature := a.Signature == b.Signature || a.Signature != nil && b.Signature != nil && *a.Signature == *b.Signature
	return sameSignature && x.Version == y.Version && bytes.Equal(x.Accepted, y.Accepted) && bytes.Equal(x.Resource, y.Resource) &&
		bytes.Equal(x.Extensions, y.Extensions) && bytes.Equal(a.Detail, b.Detail)
}

// Decode decodes the rows of a payment. The payment shares no memory with them.
func Decode(s Stored) (*pay.Payment, error) {
	if len(s.Row) < 2 || s.Row[0] != Version || len(s.Payload) > 0 && s.Payload[0] != Version {
		return nil, fmt.Errorf("payment of an unknown encoding")
	}
	var row paymentRow
	if err := unmarshal(s.Row[2:], &row); err != nil {
		return nil, fmt.Errorf("decode payment: %w", err)
	}
	p, err := row.payment()
	if err != nil || len(s.Payload) == 0 {
		return p, err
	}
	var r payloadRow
	if err := unmarshal(s.Payload[1:], &r); err != nil {
		return nil, fmt.Errorf("decode the payload of a payment: %w", err)
	}
	p.Offer = x402.Offer{Version: r.Version, Accepted: r.Accepted, Resource: r.Resource, Extensions: r.Extensions}
	p.Signature, p.Detail = r.Signature, r.Detail
	return p, nil
}

// DecodeEvent decodes what EncodeEvent wrote of the event with an id, of an API key. The event shares no
// memory with it.
func DecodeEvent(keyID, id string, encoded []byte) (e pay.SpendEvent, err error) {
	if len(encoded) == 0 || encoded[0] != Version {
		return e, fmt.Errorf("spend event of an unknown encoding")
	}
	var r eventRow
	if err := unmarshal(encoded[1:], &r); err != nil {
		return e, fmt.Errorf("decode spend event: %w", err)
	}
	e = pay.SpendEvent{
		ID: id, KeyID: keyID, PaymentID: string(r.PaymentID), Currency: r.Currency, RequestURL: r.RequestURL,
		Task: r.Task, Host: longHost(r.Host, r.RequestURL), Created: r.Created.Time(), Corrects: string(r.Corrects),
	}
	e.Amount, err = r.Amount.Amount()
	return e, err
}

// Version is the first byte of a row in CBOR.
const Version = 2
