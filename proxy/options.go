package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// PayOptions say how requests are paid for, at every door that sends them itself.
type PayOptions struct {
	// MaxReplay bounds how many bytes of a request body are kept in memory, to be sent again
	// with a payment or to another upstream. The rest goes into a file. Default: 1 MiB.
	MaxReplay int64
	// MaxSpool bounds a request body that is kept with the help of a file, in bytes. A
	// longer one passes, and its 402 is not paid. Default: 64 MiB; negative: no files.
	MaxSpool int64
	// SpoolDir holds these files. Default: the system's directory for temporary files.
	SpoolDir string
	// MaxReplayTotal and MaxSpoolTotal bound what all requests in flight keep in memory and
	// in files, in bytes. A key has a quarter of each, and at least room for one body.
	// The first 64 KiB of a body do not count, for up to 1,024 requests of a key at a time. If a
	// body finds no room, its 402 becomes a 503. Defaults: 256 MiB and 1 GiB.
	MaxReplayTotal, MaxSpoolTotal int64

	// MaxFailures bounds the payments in a row to one host that bring no answer, an error or
	// another 402. After them the key's new payments to that host are declined for a while.
	// Default: 5; negative: no bound.
	MaxFailures int
	// Admission bounds how many payments are decided on and journaled at once.
	Admission admission.Options

	// ChallengeHeaders are more response headers that may hold a challenge.
	ChallengeHeaders []string
	// AllowHTTP are hosts ("name" or "name:port") that may be paid over plain http although
	// their address is public.
	AllowHTTP []string
	Observer  Observer // may be nil
}

// TransportOptions configure a Transport. Payer and Next are required.
type TransportOptions struct {
	PayOptions

	Payer *pay.Payer
	// Next sends requests. It must call net/http/httptrace hooks as http.Transport does:
	// purser learns from them which address was dialled and whether a payload has left.
	// It must close every request body, as every http.RoundTripper has to.
	Next http.RoundTripper
	// Door is named by booked payments and by policies. Default: proxy.
	Door policy.Door
	// MayPayPlain says which addresses may be paid over plain http without being listed.
	// Default: loopback and private ones.
	MayPayPlain func(remote netip.Addr) bool
	Logger      *slog.Logger
	Clock       pay.Clock
}

// NewTransport makes a Transport.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.Payer == nil || o.Next == nil {
		return nil, errors.New("proxy: a payer and a transport to send with are required")
	}
	if o.Clock == nil {
		o.Clock = failpoint.Now
	}
	o.Observer, o.Logger = cmp.Or(o.Observer, Unobserved()), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	plain, err := newPlainRule(o.AllowHTTP, o.MayPayPlain)
	if err != nil {
		return nil, err
	}
	spool, err := newSpooler(o.PayOptions, o.Logger)
	if err != nil {
		return nil, err
	}
	return &Transport{
		payer: o.Payer, next: o.Next, door: cmp.Or(o.Door, policy.DoorProxy), spool: spool, extra: o.ChallengeHeaders, plain: plain,
		gate: admission.New(o.Admission), sellers: newSellers(o.MaxFailures, o.Clock), redirects: newRedirects(o.Payer, o.Logger, o.Clock), proofs: newProofs(o.Clock),
		observer: o.Observer, log: o.Logger, now: o.Clock, patience: 30 * time.Second,
	}, nil
}

func newSpooler(o PayOptions, log *slog.Logger) (*spooler, error) {
	for _, n := range []int64{o.MaxReplay, o.MaxReplayTotal, o.MaxSpoolTotal} {
		if n < 0 {
			return nil, fmt.Errorf("proxy: replay limit of %d bytes", n)
		}
	}
	s := &spooler{
		memory: cmp.Or(o.MaxReplay, 1<<20), files: o.MaxSpool >= 0, dir: cmp.Or(o.SpoolDir, os.TempDir()), observer: o.Observer, log: log,
	}
	s.most = max(s.memory, cmp.Or(o.MaxSpool, 64<<20))
	memory := func(n int64) { s.observer.Spooled(n, 0, 0) }
	s.guaranteed = newQuota(math.MaxInt64, 0, memory)
	s.guaranteed.share = guaranteedRequests * guaranteedBytes
	s.inMemory = newQuota(cmp.Or(o.MaxReplayTotal, 256<<20), s.memory, memory)
	s.onDisk = newQuota(cmp.Or(o.MaxSpoolTotal, 1<<30), s.most, func(n int64) { s.observer.Spooled(0, n, 0) })
	if s.files {
		s.most = min(s.most, s.memory+s.onDisk.limit)
	}
	return s, nil
}
