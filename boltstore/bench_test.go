//go:build unix

package boltstore

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPay measures Begin and Record of one payment, by one caller and by many,
// with and without the disk's part, and the processor time of one operation.
func BenchmarkPay(b *testing.B) {
	for _, noSync := range []bool{false, true} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("fsync=%t/callers=%d", !noSync, callers), func(b *testing.B) {
				d, err := open(context.Background(), inFolder(b.TempDir()), noSync)
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				before := processorTime(b)
				b.ResetTimer()
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						key := fmt.Sprintf("key-%d", i)
						for n := i; n < b.N; n += callers {
							begun, err := d.Begin(context.Background(), call(key))
							if err == nil {
								_, _, err = d.Record(context.Background(), settlement(begun.Payment))
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "payments/s")
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(2*b.N), "cpu-µs/op")
			})
		}
	}
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
