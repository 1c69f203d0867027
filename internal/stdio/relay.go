// Package stdio stands between a client of the Model Context Protocol and a local server, on their standard streams. It
// relays their messages, and pays through a running purser for calls whose answers ask for money.
//
// It starts no processes, and keeps no keys. Package toolcall reads the messages. Package agent asks purser.
package stdio

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/protocol/toolcall"
)

// Bounds on messages that are looked into, in bytes. Longer ones pass as they come.
const (
	maxCall   = 1 << 20
	maxAnswer = 16 << 20 // an image that was paid for
)

// receiptTime bounds posting a receipt.
const receiptTime = 10 * time.Second

// Options configures a relay.
type Options struct {
	// Connect finds purser and the key, at each payment.
	Connect func(ctx context.Context) (*agent.Client, error)
	// Version is that of this purser. Refusals tell it.
	Version string
	// Host stands for the server in booked URLs, such as weather.stdio.
	Host string
	// Command is the server's command line. Equal calls of equal command lines are the same purchase.
	Command []string
	// Dir is a folder for purchases whose answers have not come. It is made.
	Dir string
	Now func() time.Time
	// Tell writes a line for people.
	Tell func(format string, args ...any)

	FromClient, FromServer io.Reader
	ToClient               io.Writer
	ToServer               io.WriteCloser // closed when the client's messages end
}

// Relay relays the messages of one client and one server.
type Relay struct {
	o                  Options
	toClient, toServer stream
	purchases          *purchases

	working sync.WaitGroup // calls that are being paid for, and receipts
	mu      sync.Mutex
	calls   map[string]*call // unanswered ones, by their ids
	ended   bool             // the server's messages have ended
	over    chan struct{}    // closed then
}

// New makes a relay.
func New(o Options) (*Relay, error) {
	kept, err := newPurchases(o.Dir, o.Now, append([]string{o.Host}, o.Command...)...)
	if err != nil {
		return nil, err
	}
	return &Relay{o: o, toClient: stream{to: o.ToClient}, toServer: stream{to: o.ToServer}, purchases: kept, calls: map[string]*call{}, over: make(chan struct{})}, nil
}

// Run relays until the messages of the server end. Then it answers the calls that the server has left, and waits for
// receipts that are being posted. The end of the client's messages is passed on to the server.
//
// A read of the client's messages may outlast Run: a read of standard input cannot be ended.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.fromClient()
	err := r.fromServer(ctx)
	r.mu.Lock()
	r.ended = true
	close(r.over)
	for _, c := range r.calls {
		c.stop()
	}
	r.mu.Unlock()
	r.working.Wait()
	r.leave()
	r.purchases.close()
	return err
}

// fromClient relays the client's messages, and notes the calls among them that may cost something.
func (r *Relay) fromClient() {
	defer func() { _ = r.o.ToServer.Close() }()
	from := bufio.NewReader(r.o.FromClient)
	for {
		line, whole, err := readLine(from, func() int { return maxCall })
		switch {
		case !whole:
			err = r.toServer.sendOn(line, from)
		case len(line) > 0 && !r.withholds(line):
			r.note(line)
			if failed := r.toServer.send(line); failed != nil {
				err = failed
			}
		}
		if err != nil {
			return
		}
	}
}

// note remembers a call until its answer comes.
func (r *Relay) note(line []byte) {
	read, err := toolcall.Read(line)
	if err != nil || read.Pays() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.calls[read.ID()]; !twice && !r.ended {
		r.calls[read.ID()] = &call{Call: read, stop: func() {}}
	}
}

// withholds reports whether a message cancels a call whose payment is on its way to the server. The server goes on
// with that one.
func (r *Relay) withholds(line []byte) bool {
	id := toolcall.Cancelled(line)
	if id == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[id]
	if c == nil {
		return false
	}
	c.stop()
	c.gone = true
	if c.stage != paid {
		return false
	}
	if c.abandoned == nil {
		c.abandoned = r.purchases.abandon(c.purchase)
	}
	return true
}

// fromServer relays the server's messages, except for answers that ask for money.
func (r *Relay) fromServer(ctx context.Context) error {
	from := bufio.NewReader(r.o.FromServer)
	for {
		line, whole, err := readLine(from, r.most)
		if !whole {
			err = r.toClient.sendOn(line, from)
		} else if len(line) > 0 {
			if c := r.asked(line); c != nil {
				r.answered(ctx, c, line)
			} else if failed := r.toClient.send(line); failed != nil {
				err = failed
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// most returns how long a message may be that is looked into.
func (r *Relay) most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		return 0
	}
	return maxAnswer
}

// asked returns the call that a message answers; nil: it is none of those that may cost something.
func (r *Relay) asked(line []byte) *call {
	if r.most() == 0 {
		return nil
	}
	id := toolcall.Addressee(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.calls[id]; c != nil || id == "" {
		return c
	}
	for _, c := range r.calls {
		if c.Named(id) {
			return c
		}
	}
	return nil
}
