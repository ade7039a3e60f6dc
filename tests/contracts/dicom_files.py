"""DICOM files, made with pydicom."""

import numpy as np


def dicom(path, samples, *, syntax=None, **fields):
    """A DICOM file of (height, width[, 3]) samples; `fields` are set at the end, and None removes one."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    samples = np.asarray(samples)
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = syntax or ExplicitVRLittleEndian
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    made.file_meta.MediaStorageSOPInstanceUID = made.SOPInstanceUID = "1.2.3"
    made.Rows, made.Columns = samples.shape[:2]
    bits = 8 * samples.dtype.itemsize
    made.BitsAllocated, made.BitsStored, made.HighBit = bits, bits, bits - 1
    made.PixelRepresentation = int(samples.dtype.kind == "i")
    made.SamplesPerPixel = 1 if samples.ndim == 2 else samples.shape[2]
    made.PhotometricInterpretation = "MONOCHROME2" if samples.ndim == 2 else "RGB"
    if samples.ndim == 3:
        made.PlanarConfiguration = 0
    made.PixelData = samples.tobytes() + b"\0" * (samples.nbytes % 2)
    if "BitsStored" in fields:
        made.HighBit = fields["BitsStored"] - 1
    for name, value in fields.items():
        if value is None:
            delattr(made, name)
        else:
            setattr(made, name, value)
    made["PixelData"].VR = "OB" if bits <= 8 else "OW"
    made.save_as(path, enforce_file_format=True)
    return path


def table(samples, first=0, bits=8, keyword="LUTData"):
    """A sequence with one look-up table, for `VOILUTSequence` and `ModalityLUTSequence`."""
    from pydicom.dataset import Dataset
    from pydicom.sequence import Sequence

    made = Dataset()
    made.LUTDescriptor = [len(samples), first, bits]
    made.LUTData = np.asarray(samples, np.uint16).tobytes()
    made["LUTData"].VR = "OW"
    made["LUTDescriptor"].VR = "SS" if first < 0 else "US"
    made.ModalityLUTType = "US"
    return Sequence([made])
