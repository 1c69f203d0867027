package adminapi

import "net/http"

// Reload is the body of POST /purser/reload. What it leaves out stays as purser was started.
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

// reload makes the process read its files again. There need not be a purser that serves.
func (h *Handler) reload(w http.ResponseWriter, r *http.Request) error {
	var body Reload
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if h.Reload == nil {
		return Errorf(http.StatusNotImplemented, "this program was not started by 'purser run': restart it instead")
	}
	done, err := h.Reload(body)
	if err != nil {
		return Errorf(http.StatusConflict, "%w", err)
	}
	return writeBody(w, http.StatusOK, done)
}
