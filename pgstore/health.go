package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/purserpay/purser/pay"
)

const (
	// batchTime bounds a batch with all that it waits for.
	batchTime = 6 * time.Second
	// lookupTime bounds the question whether a batch is in the database.
	lookupTime = 2 * time.Second
	// answerTime bounds the wait for the first row of a reading, and a transaction of what is written
	// rarely.
	answerTime = 10 * time.Second
	// connectTime bounds the making of a connection.
	connectTime = 3 * time.Second
)

// reasons tells people of each class of causes.
var reasons = map[string]string{
	DownAway:        "the database cannot be reached",
	DownHangs:       "the database does not answer in time",
	DownReadOnly:    "the database is read-only",
	DownFull:        "the database's disk is full",
	DownConnections: "the database has no free connection",
	DownStarting:    "the database is starting or shutting down",
	DownRefused:     "the database refuses to write",
	DownOld:         "the database wants a newer purser",
	DownLost:        "the database has lost commits that this node had heard of",
	DownTakeover:    "another server has taken over the database, and all nodes look first whether it lacks commits",
	DownReplaced:    "another store stands where the database was: start purser again if that is right, or bring the former one back",
}

// downError tells a caller why nothing was written. It has no address, name or password.
type downError struct{ class string }

func (e *downError) Error() string { return pay.ErrUnavailable.Error() + ": " + reasons[e.class] }

func (e *downError) Unwrap() error { return pay.ErrUnavailable }

// readable reports whether the database may answer questions although it cannot be written.
func readable(class string) bool { return class == DownReadOnly || class == DownFull }

// lostConnection wraps an error after which the connection is no more, or never was.
type lostConnection struct{ error }

func (e *lostConnection) Unwrap() error { return e.error }

// lostCommit is the error of a batch that may be in the database.
type lostCommit struct {
	error
	batch [16]byte
}

func (e *lostCommit) Unwrap() error { return e.error }

// downClass returns the class of a cause for which a node stops writing; "": the error is of another sort.
func downClass(err error) string {
	if told, is := errors.AsType[*downError](err); is {
		return told.class
	}
	if refused, is := errors.AsType[*pgconn.PgError](err); is {
		code := refused.Code
		switch {
		case code == "25006":
			return DownReadOnly
		case code == "53100":
			return DownFull
		case code == "53300":
			return DownConnections
		case strings.HasPrefix(code, "57P0"):
			return DownStarting
		case code == "57014", code == "55P03", code == "25P03":
			return DownHangs
		case code == "42501", strings.HasPrefix(code, "53"), strings.HasPrefix(code, "58"), strings.HasPrefix(code, "08"), strings.HasPrefix(code, "28"), strings.HasPrefix(code, "3D"):
			return DownRefused
		}
		return ""
	}
	_, lost := errors.AsType[*lostConnection](err)
	_, unmade := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return DownHangs
	case lost, unmade:
		return DownAway
	}
	return ""
}

// Health reports why the store cannot take new payments.
func (d *DB) Health(ctx context.Context) error {
	if class, since, queued, unsaved := d.outage.state(); class != "" {
		where := ""
		if unsaved {
			where = " in memory alone"
		}
		return fmt.Errorf("%w since %s, %d outcomes wait%s: %s", pay.ErrUnavailable, since.UTC().Format(time.RFC3339), queued, where, reasons[class])
	}
	if d.old.Load() {
		return &downError{DownOld}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	_, err := setting(ctx, d.pool, settingVault)
	if errors.Is(err, context.DeadlineExceeded) {
		return &downError{DownHangs}
	}
	return err
}
