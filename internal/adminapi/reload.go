package adminapi

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// Reload is the body of POST /purser/reload. A field that it leaves out stays as purser was started.
type Reload struct {
	Config   string   `json:"config,omitempty"` // absolute path of the configuration
	Adapter  string   `json:"adapter,omitempty"`
	EnvFiles []string `json:"env_files,omitempty"` // absolute paths of files with variables
}

// Reloaded answers it.
type Reloaded struct {
	Config   string   `json:"config"`
	EnvFiles []string `json:"env_files"`
	Changed  []string `json:"changed"`  // names of variables that have another value now, or none
	Warnings []string `json:"warnings"` // about variables that are not in force
}

// LoadError is a configuration that was read, and that the server could not load.
type LoadError struct{ Err error }

func (e *LoadError) Error() string { return e.Err.Error() }

// Unwrap returns the server's error.
func (e *LoadError) Unwrap() error { return e.Err }

// replacedTime bounds the wait for the end of the admin endpoint that was replaced.
const replacedTime = 2 * time.Second

// ended returns a channel that is closed when the server of a request has closed its listener; nil if it
// is not known.
func ended(r *http.Request) <-chan struct{} {
	server, is := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !is {
		return nil
	}
	done := make(chan struct{})
	server.RegisterOnShutdown(sync.OnceFunc(func() { close(done) }))
	return done
}

// awaitReplaced waits until the server that answers takes no further connection. Each load replaces the
// admin endpoint, also one that fails, and the old one stops beside the new one. A client that connects
// after the answer must reach the new one: the old one would close the connection without an answer.
func awaitReplaced(r *http.Request, old <-chan struct{}) {
	if old == nil {
		return
	}
	enough := time.NewTimer(replacedTime)
	defer enough.Stop()
	select {
	case <-old:
	case <-enough.C:
	case <-r.Context().Done():
	}
}

// reload makes the process read its files again. There need not be a purser that serves.
func (h *Handler) reload(w http.ResponseWriter, r *http.Request) error {
	var body Reload
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if h.Reload == nil {
		return Errorf(http.StatusNotImplemented, "this program was not started by 'purser run': restart it instead")
	}
	old := ended(r)
	done, err := h.Reload(body)
	if _, tried := errors.AsType[*LoadError](err); tried || err == nil {
		awaitReplaced(r, old)
	}
	if err != nil {
		return Errorf(http.StatusConflict, "%w", err)
	}
	return writeBody(w, http.StatusOK, done)
}
