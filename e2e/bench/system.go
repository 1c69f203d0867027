package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTicks is the number of units of /proc/PID/stat in a second: 100 on every Linux.
const clockTicks = 100

// processorTime returns the CPU time of a process so far, in user and system mode. It returns false
// when the system does not tell.
func processorTime(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field is the program's name in parentheses, which may contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0, false
	}
	var ticks int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, true
}

// charactersWritten returns the bytes that a process has written by system calls, to files, sockets
// and pipes. It returns false when the system does not tell.
func charactersWritten(pid int) (int64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "wchar: "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// memory returns the memory of a process in MiB: its own, and with pages of files, such as the
// database, that the system may drop at any time. It returns zero when the system does not tell.
func memory(pid int) (own, all float64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch {
		case err != nil:
		case name == "RssAnon":
			own = kib / 1024
		case name == "VmRSS":
			all = kib / 1024
		}
	}
	return own, all
}

// fsyncTime returns the median time to make 4 KiB durable in a folder, in milliseconds.
func fsyncTime(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = f.Close() // the folder is removed anyway
		_ = os.Remove(f.Name())
	}()
	page := make([]byte, 4<<10)
	times := make([]time.Duration, 101)
	for i := range times {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return milliseconds(times[len(times)/2]), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
