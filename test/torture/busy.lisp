;; Garbage collection with write barriers by page faults, conditions, and the end of the control stack, checked, for as many seconds as the
;; environment's SECONDS says.
(defvar *end* (+ (get-universal-time) (parse-integer (sb-posix:getenv "SECONDS"))))
(defvar *requests* 0)

(defun wrong (what)
  (format t "wrong: ~a~%" what)
  (finish-output)
  (sb-ext:exit :code 1 :abort t))

(defun thrower (depth)
  (if (zerop depth) (error "deep") (1+ (thrower (1- depth)))))

(declaim (notinline endless))
(defun endless (n) (1+ (endless (1+ n))))

(defvar *old* (make-array 20000 :initial-element nil))

(defun one-round (seed)
  (unless (eq :caught (handler-case (thrower (mod seed 100)) (error () :caught))) (wrong "no condition"))
  (loop for i below 20000 by 7 do (setf (aref *old* i) (list i seed)))
  (when (zerop (mod seed 20)) (gc :full (zerop (mod seed 100))))
  (unless (= (loop for i below 20000 by 7 sum (first (aref *old* i))) (loop for i below 20000 by 7 sum i)) (wrong "sum of lists"))
  (let ((table (make-hash-table :test 'equal)))
    (dotimes (i 1000) (setf (gethash (format nil "k~d" i) table) (* i seed)))
    (unless (= (loop for v being the hash-values of table sum v) (* 499500 seed)) (wrong "hash table")))
  (when (zerop (mod seed 50))
    (unless (eq :exhausted (handler-case (endless 0) (storage-condition () :exhausted))) (wrong "no end of the stack"))))

(loop while (< (get-universal-time) *end*) do (one-round (incf *requests*)))
(format t "requests ~d~%" *requests*)
