package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// Error reports a call without an answer. Its text is short and safe to show. Its cause serves
// errors.Is and logs. The cause does not contain the URL, but may name the host.
type Error struct {
	Reason string
	Cause  error
	// NotSent is true when no connection was made, so that no byte of the request can have reached
	// the service.
	NotSent bool
}

func (e *Error) Error() string { return e.Reason }

func (e *Error) Unwrap() error { return e.Cause }

// newError describes an error of net/http.
func newError(err error) *Error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // the outer error repeats the URL
	}
	return &Error{Reason: reasonOf(err), Cause: err}
}

func reasonOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return "canceled"
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timed out"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "host not found"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate not trusted"
	}
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return "no TLS where https was expected"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the answer was complete"
	}
	return "connection failed"
}
