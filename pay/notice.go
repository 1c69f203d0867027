package pay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// NoticeKind names what a notice is about.
type NoticeKind string

// The kinds of notices.
const (
	NoticeBudget50      NoticeKind = "budget-50"
	NoticeBudget80      NoticeKind = "budget-80"
	NoticeBudget100     NoticeKind = "budget-100"
	NoticeDeclined      NoticeKind = "declined"
	NoticeApproval      NoticeKind = "approval-needed"
	NoticeDisputed      NoticeKind = "disputed"
	NoticeUnresolved    NoticeKind = "unresolved"
	NoticeLowBalance    NoticeKind = "low-balance"
	NoticeNewHost       NoticeKind = "new-host"
	NoticeNewPayee      NoticeKind = "new-payee"
	NoticePriceJump     NoticeKind = "price-jump"
	NoticeUnansweredRun NoticeKind = "unanswered-run"
	NoticeUndelivered   NoticeKind = "undelivered"
	NoticePaused        NoticeKind = "paused"
	NoticeResumed       NoticeKind = "resumed"
	NoticeCommitsLost   NoticeKind = "commits-lost"
	NoticeTrouble       NoticeKind = "trouble"
	NoticeTest          NoticeKind = "test"
	// NoticeHeldBack tells that further notices of a kind are not sent in this hour.
	NoticeHeldBack NoticeKind = "held-back"
)

// NoticeKinds lists all kinds.
func NoticeKinds() []NoticeKind {
	return []NoticeKind{
		NoticeBudget50, NoticeBudget80, NoticeBudget100, NoticeDeclined, NoticeApproval, NoticeDisputed, NoticeUnresolved, NoticeLowBalance,
		NoticeNewHost, NoticeNewPayee, NoticePriceJump, NoticeUnansweredRun, NoticeUndelivered, NoticePaused, NoticeResumed, NoticeCommitsLost, NoticeTrouble, NoticeTest, NoticeHeldBack,
	}
}

// Notice tells people of something. It is delivered at least once.
type Notice struct {
	// Number is given by the store: each notice has a higher one than those before.
	Number uint64 `json:"Number"`
	// ID is given by the store. It stays the same however often the notice is delivered.
	ID   string     `json:"ID"`
	At   time.Time  `json:"At"`
	Kind NoticeKind `json:"Kind"`
	// Once: the store drops a notice whose Once it knows. It forgets it after NoticeOnceKept.
	Once string `json:"Once,omitempty"`
	// What it is about; "" where it has nothing to do with the notice.
	KeyID          string `json:"KeyID,omitempty"`
	OrganizationID string `json:"OrganizationID,omitempty"`
	WalletID       string `json:"WalletID,omitempty"`
	PaymentID      string `json:"PaymentID,omitempty"`
	ApprovalID     string `json:"ApprovalID,omitempty"`
	Host           string `json:"Host,omitempty"`
	Payee          string `json:"Payee,omitempty"`
	// Title and Text are plain sentences without secrets. Host, task and label in them are the words of
	// others.
	Title   string            `json:"Title"`
	Text    string            `json:"Text"`
	Figures map[string]string `json:"Figures,omitempty"`

	// Marks lists further Onces that are known from now on. A notice without a Kind only leaves marks.
	Marks []string `json:"-"`
	// Run names a row of events that the store counts. The notice is told when the count reaches RunOf. A
	// notice without a Kind ends the row.
	Run   string `json:"-"`
	RunOf uint64 `json:"-"`
}

const (
	// NoticesKept is the number of notices that a store keeps.
	NoticesKept = 10_000
	// NoticeOnceKept is the time for which a store knows a Once.
	NoticeOnceKept = 90 * 24 * time.Hour
	// NoticeRunKept is the time after its last event for which a store knows a row of events.
	NoticeRunKept = 30 * 24 * time.Hour
	// NoticesPerHour bounds the notices of one kind about one key in an hour. A hostile seller must not
	// flood people.
	NoticesPerHour = 20
	// NoticeClaimTime is the time after which the claim of a sender that died lapses. It is longer than the
	// slowest delivery and its note take: 30 s of a mail server and 10 s of the store.
	NoticeClaimTime = time.Minute
)

// NoticeQuery selects notices.
type NoticeQuery struct {
	Before uint64 // number of the last notice of the page before; 0 for the first
	Limit  int    // at most 1,000
}

// Delivery holds how far a destination of notices has got.
type Delivery struct {
	Destination string `json:"Destination"`
	// Cursor is the number of the last notice that is done with: delivered, given up or not wanted.
	Cursor uint64 `json:"Cursor"`
	// Tries counts the failed tries of the notice behind Cursor, and Refusals those that the receiver
	// refused for good. First is the time of the first try, and Next that of the next one.
	Tries    int       `json:"Tries,omitempty"`
	Refusals int       `json:"Refusals,omitempty"`
	First    time.Time `json:"First,omitzero"`
	Next     time.Time `json:"Next,omitzero"`
	// Delivered is the time of the last delivery, and Failed that of the last try that failed, with its
	// Error.
	Delivered time.Time `json:"Delivered,omitzero"`
	Failed    time.Time `json:"Failed,omitzero"`
	Error     string    `json:"Error,omitempty"`
	// GivenUp counts the notices that were never delivered.
	GivenUp uint64 `json:"GivenUp,omitempty"`
	// Stopped: the receiver wants no notices any more.
	Stopped bool `json:"Stopped,omitempty"`
	// Version counts the changes of the row. The store raises it.
	Version uint64 `json:"Version,omitempty"`
}

// ErrDeliveryChanged: another sender or an operator has changed the destination since it was read.
// Nothing was written.
var ErrDeliveryChanged = errors.New("the destination of notices has changed meanwhile")

// NoticeReader reads notices, their marks and their destinations.
type NoticeReader interface {
	// Mark is [NoticeBook.Mark].
	Mark(ctx context.Context, name string) (NoticeMark, error)
	// Notices lists notices, newest first; the last NoticesKept are kept.
	Notices(ctx context.Context, q NoticeQuery) ([]Notice, error)
	// NoticesAfter lists the notices with higher numbers than one, oldest first; at most 1,000.
	NoticesAfter(ctx context.Context, number uint64, limit int) ([]Notice, error)
	// Deliveries lists the destinations that are known, by name.
	Deliveries(ctx context.Context) ([]Delivery, error)
}

// Outbox keeps notices until their destinations have them. Notices of a decision or an outcome come
// from [Begun.Notices] and [Effects.Notices] and are written in its transaction.
type Outbox interface {
	NoticeReader

	// AddNotices writes notices by [WriteNotices].
	AddNotices(ctx context.Context, list []Notice) error
	// SetMarks replaces marks that calls of a key read. One without an Until is forgotten.
	SetMarks(ctx context.Context, keyID string, marks map[string]NoticeMark, now time.Time) error
	// ForgetNotice forgets a Once, so that the next notice with it is told. It need not be known.
	ForgetNotice(ctx context.Context, once string) error
	// ClaimDelivery lets its caller send to a destination until the next SetDelivery, for NoticeClaimTime
	// at most by the store's clock. It reports false if another sender has a claim, or if the Version is
	// not d's any more.
	ClaimDelivery(ctx context.Context, d Delivery) (mine bool, err error)
	// SetDelivery replaces what is known of a destination, raises its Version and ends its claim. If the
	// Version is not d's any more, it fails with ErrDeliveryChanged. An unknown destination has 0.
	SetDelivery(ctx context.Context, d Delivery) error
	// ForgetDelivery removes what is known of a destination. It need not be known.
	ForgetDelivery(ctx context.Context, destination string) error
}

// NoticeMark holds a name that a store knows for some time, and a count.
type NoticeMark struct {
	Count uint64
	Until time.Time
}

// NoticeBook is a store's outbox within one transaction. Names of marks are those of [MarkName].
type NoticeBook interface {
	// Mark finds a mark; zero: it is not known. One whose time has passed may be returned.
	Mark(name string) (NoticeMark, error)
	// SetMark replaces a mark, and may drop others whose Until is before now.
	SetMark(name string, m NoticeMark, now time.Time) error
	// Append numbers and keeps a notice, and drops the one that is NoticesKept older.
	Append(n Notice) error
}

// noticed reports whether a mark of notices is known at a time: see [WriteNotices].
func noticed(v BeginView, mark string, at time.Time) (bool, error) {
	m, err := v.Mark(MarkName(mark))
	return m.Until.After(at), err
}

// maxMarkName bounds the name under which a store keeps a mark, in bytes. An index of PostgreSQL takes
// 2,704 bytes. Names with a host of any length that purser pays are shorter.
const maxMarkName = 512

// MarkName returns the name under which a store keeps a mark: the given one, or a hash if that is too long.
func MarkName(name string) string {
	if len(name) <= maxMarkName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256/" + hex.EncodeToString(sum[:])
}

// hashedBook is a book whose marks have bounded names.
type hashedBook struct{ NoticeBook }

func (b hashedBook) Mark(name string) (NoticeMark, error) { return b.NoticeBook.Mark(MarkName(name)) }

func (b hashedBook) SetMark(name string, m NoticeMark, now time.Time) error {
	return b.NoticeBook.SetMark(MarkName(name), m, now)
}

// WriteNotices writes notices whose Once is not known, and at most NoticesPerHour of one kind, key and
// hour. One that is held back leaves no marks: a key that pays many hosts must not fill the store with
// them. A store calls it in the transaction that causes the notices.
func WriteNotices(book NoticeBook, list []Notice) error {
	book = hashedBook{book}
	for _, n := range list {
		n.At = n.At.UTC()
		if reached, err := countRun(book, n); err != nil {
			return err
		} else if !reached {
			continue
		}
		if n.Once != "" {
			m, err := book.Mark(n.Once)
			if err != nil {
				return err
			}
			if m.Until.After(n.At) {
				continue
			}
			n.Marks = append([]string{n.Once}, n.Marks...)
		}
		if n.Kind != "" {
			if told, err := writeNotice(book, n); err != nil {
				return err
			} else if !told {
				continue
			}
		}
		for _, name := range n.Marks {
			if err := book.SetMark(name, NoticeMark{Count: 1, Until: n.At.Add(NoticeOnceKept)}, n.At); err != nil {
				return err
			}
		}
	}
	return nil
}

// countRun counts an event of a row. It reports whether the notice is to be told.
func countRun(book NoticeBook, n Notice) (reached bool, err error) {
	if n.Run == "" {
		return true, nil
	}
	m, err := book.Mark(n.Run)
	if err != nil {
		return false, err
	}
	if !m.Until.After(n.At) {
		m.Count = 0
	}
	switch {
	case n.Kind != "":
		m.Count++
	case m.Count == 0:
		return false, nil
	default:
		m.Count = 0
	}
	m.Until = n.At.Add(NoticeRunKept)
	return n.Kind != "" && m.Count == n.RunOf, book.SetMark(n.Run, m, n.At)
}

// writeNotice counts a notice in its hour, and writes it if there is room.
func writeNotice(book NoticeBook, n Notice) (told bool, err error) {
	hour := fmt.Sprintf("rate/%s/%s/%s", n.Kind, n.KeyID, n.At.Format("2006-01-02T15"))
	m, err := book.Mark(hour)
	if err != nil || m.Count > NoticesPerHour {
		return false, err
	}
	if told = m.Count < NoticesPerHour; !told {
		n = heldBack(n)
	}
	err = book.SetMark(hour, NoticeMark{Count: m.Count + 1, Until: n.At.Truncate(time.Hour).Add(2 * time.Hour)}, n.At)
	if err != nil {
		return false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return false, fmt.Errorf("naming a notice: %w", err)
	}
	n.ID, n.Marks, n.Run, n.RunOf = id.String(), nil, "", 0
	return told, book.Append(n)
}

// heldBack takes the place of the first notice that is too many in its hour.
func heldBack(n Notice) Notice {
	return Notice{
		At: n.At, Kind: NoticeHeldBack, KeyID: n.KeyID, OrganizationID: n.OrganizationID,
		Title: "More notices are held back",
		Text: fmt.Sprintf("purser has sent %d notices of the kind %s in this hour, and holds back further ones until %s UTC. See all payments and declines on the dashboard.",
			NoticesPerHour, n.Kind, n.At.Truncate(time.Hour).Add(time.Hour).Format("15:04")),
		Figures: map[string]string{"kind": string(n.Kind)},
	}
}
